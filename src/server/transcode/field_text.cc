#include "server/transcode/field_text.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/field_mask.pb.h>
#include <google/protobuf/stubs/strutil.h>
#include <google/protobuf/util/json_util.h>

#include <charconv>
#include <optional>

#include "base/utf8.h"
#include "server/json_string.h"

namespace muster::server {
namespace {

namespace pb = google::protobuf;
using Field = pb::FieldDescriptor;

std::unexpected<Error> UnknownName(std::string_view path, std::string_view name) {
  return Fail(Code::kInvalidArgument,
              "Invalid JSON payload received. Unknown name \"{}\": Cannot bind query parameter. "
              "Field '{}' could not be found in request message.",
              ToValidUtf8(path), ToValidUtf8(name));
}

// "TYPE_INT64", or the type URL of a message or an enum.
std::string TypeName(const Field& field) {
  if (field.cpp_type() == Field::CPPTYPE_ENUM) {
    return "type.googleapis.com/" + field.enum_type()->full_name();
  }
  if (field.cpp_type() == Field::CPPTYPE_MESSAGE) {
    return "type.googleapis.com/" + field.message_type()->full_name();
  }
  return pb::FieldDescriptorProto::Type_Name(
      static_cast<pb::FieldDescriptorProto::Type>(field.type()));
}

std::unexpected<Error> InvalidValue(const Field& field, std::string_view path,
                                    std::string_view text) {
  return Fail(Code::kInvalidArgument, "Invalid value at '{}' ({}), \"{}\"", ToValidUtf8(path),
              TypeName(field), ToValidUtf8(text));
}

template <typename T>
std::optional<T> ReadNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// page_mask,jobSpec.workerPoolSpecs → page_mask,job_spec.worker_pool_specs
std::string SnakeCasePaths(std::string_view paths) {
  std::string out;
  for (const char c : paths) {
    if (c >= 'A' && c <= 'Z') {
      out += '_';
      out += static_cast<char>(c - 'A' + 'a');
    } else {
      out += c;
    }
  }
  return out;
}

Status SetFieldMask(pb::Message& message, std::string_view text) {
  pb::FieldMask mask;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view path = text.substr(0, comma);
    if (!path.empty()) mask.add_paths(SnakeCasePaths(path));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  message.CopyFrom(mask);
  return {};
}

// Types whose JSON form is one value; the JSON parser knows how to read them.
bool IsWellKnownScalar(const pb::Descriptor& type) {
  static constexpr std::string_view kTypes[] = {
      "google.protobuf.Timestamp",   "google.protobuf.Duration",    "google.protobuf.DoubleValue",
      "google.protobuf.FloatValue",  "google.protobuf.Int64Value",  "google.protobuf.UInt64Value",
      "google.protobuf.Int32Value",  "google.protobuf.UInt32Value", "google.protobuf.BoolValue",
      "google.protobuf.StringValue", "google.protobuf.BytesValue"};
  for (const std::string_view known : kTypes) {
    if (type.full_name() == known) return true;
  }
  return false;
}

bool SetMessage(pb::Message& message, std::string_view text) {
  const pb::Descriptor& type = *message.GetDescriptor();
  if (type.full_name() == "google.protobuf.FieldMask") {
    return IsValidUtf8(text) && SetFieldMask(message, text).has_value();
  }
  if (!IsWellKnownScalar(type)) return false;
  std::string json;
  if (type.full_name() == "google.protobuf.BoolValue") {
    json = text;
  } else {
    AppendJsonString(json, text);
  }
  return pb::util::JsonStringToMessage(json, &message).ok();
}

template <typename T, typename Set, typename Add>
bool Put(const Field& field, const std::optional<T>& value, Set set, Add add) {
  if (!value) return false;
  field.is_repeated() ? add(*value) : set(*value);
  return true;
}

// Whether the text is a value of the field's type, and set.
bool SetValue(pb::Message& message, const Field& field, std::string_view text) {
  const pb::Reflection& reflection = *message.GetReflection();
  pb::Message* m = &message;
  const Field* f = &field;
#define MUSTER_PUT(Type, optional_value)                                     \
  Put(                                                                       \
      field, optional_value, [&](auto v) { reflection.Set##Type(m, f, v); }, \
      [&](auto v) { reflection.Add##Type(m, f, v); })
  switch (field.cpp_type()) {
    case Field::CPPTYPE_INT32:
      return MUSTER_PUT(Int32, ReadNumber<int32_t>(text));
    case Field::CPPTYPE_INT64:
      return MUSTER_PUT(Int64, ReadNumber<int64_t>(text));
    case Field::CPPTYPE_UINT32:
      return MUSTER_PUT(UInt32, ReadNumber<uint32_t>(text));
    case Field::CPPTYPE_UINT64:
      return MUSTER_PUT(UInt64, ReadNumber<uint64_t>(text));
    case Field::CPPTYPE_DOUBLE:
      return MUSTER_PUT(Double, ReadNumber<double>(text));
    case Field::CPPTYPE_FLOAT:
      return MUSTER_PUT(Float, ReadNumber<float>(text));
    case Field::CPPTYPE_BOOL: {
      std::optional<bool> value;
      if (text == "true" || text == "false") value = text == "true";
      return MUSTER_PUT(Bool, value);
    }
    case Field::CPPTYPE_ENUM: {
      std::optional<int> value = ReadNumber<int>(text);
      if (const auto* named = field.enum_type()->FindValueByName(std::string(text))) {
        value = named->number();
      }
      return MUSTER_PUT(EnumValue, value);
    }
    case Field::CPPTYPE_STRING: {
      std::optional<std::string> value;
      if (field.type() == Field::TYPE_STRING) {
        if (IsValidUtf8(text)) value = std::string(text);
      } else {
        std::string bytes;
        if (pb::Base64Unescape(text, &bytes) || pb::WebSafeBase64Unescape(text, &bytes)) {
          value = bytes;
        }
      }
      return MUSTER_PUT(String, value);
    }
    case Field::CPPTYPE_MESSAGE: {
      if (field.is_map()) return false;
      pb::Message* const target =
          field.is_repeated() ? reflection.AddMessage(m, f) : reflection.MutableMessage(m, f);
      return SetMessage(*target, text);
    }
  }
#undef MUSTER_PUT
  return false;
}

const Field* FindField(const pb::Descriptor& type, std::string_view name) {
  const std::string text(name);
  const Field* const field = type.FindFieldByName(text);
  if (field != nullptr) return field;
  for (int i = 0; i < type.field_count(); ++i) {
    if (type.field(i)->json_name() == text) return type.field(i);
  }
  return nullptr;
}

constexpr int kFieldPathDepthMax = 32;

}  // namespace

Status SetFieldFromText(pb::Message& message, std::string_view field_path, std::string_view text,
                        FieldTextUse use) {
  pb::Message* target = &message;
  std::string snake_path;
  std::string_view rest = field_path;
  for (int depth = 0; depth < kFieldPathDepthMax; ++depth) {
    const std::string_view name = rest.substr(0, rest.find('.'));
    const Field* const field = FindField(*target->GetDescriptor(), name);
    if (field == nullptr) return UnknownName(field_path, name);
    snake_path += (snake_path.empty() ? "" : ".") + field->name();
    if (name.size() == rest.size()) {
      const bool set_before =
          !field->is_repeated() && target->GetReflection()->HasField(*target, field);
      if (use == FieldTextUse::kQuery && set_before) {
        return Fail(Code::kInvalidArgument,
                    "Invalid value at '{}' ({}), it is given more than once", snake_path,
                    TypeName(*field));
      }
      if (!SetValue(*target, *field, text)) return InvalidValue(*field, snake_path, text);
      return {};
    }
    if (field->cpp_type() != Field::CPPTYPE_MESSAGE || field->is_repeated()) {
      return UnknownName(field_path, name);
    }
    target = target->GetReflection()->MutableMessage(target, field);
    rest.remove_prefix(name.size() + 1);
  }
  return UnknownName(field_path, rest);
}

}  // namespace muster::server
