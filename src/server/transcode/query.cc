#include "server/transcode/query.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "server/transcode/field_text.h"
#include "server/transcode/percent.h"

namespace muster::server {
namespace {

constexpr std::array<std::string_view, 11> kIgnored = {
    "access_token", "bearer_token", "callback",        "fields",     "key",   "oauth_token",
    "pp",           "quotaUser",    "upload_protocol", "uploadType", "userIp"};

// "json", "json;enum-encoding=int"
Status ReadAlt(std::string_view value, AnswerStyle& style) {
  const std::string_view format = value.substr(0, value.find(';'));
  if (format != "json") {
    return Fail(Code::kInvalidArgument, "alt={}: answers are JSON only; leave alt out or say json",
                ToValidUtf8(value));
  }
  value.remove_prefix(format.size());
  if (value == ";enum-encoding=int") style.enums_as_integers = true;
  return {};
}

}  // namespace

Result<QueryParameters> ParseQuery(std::string_view query) {
  QueryParameters parameters;
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), part.size() + 1));
    if (part.empty()) continue;
    const size_t equals = part.find('=');
    auto key = PercentDecode(part.substr(0, equals), PercentRule::kForm);
    auto value = PercentDecode(
        equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1),
        PercentRule::kForm);
    if (!key || !value) {
      return Fail(Code::kInvalidArgument, "The query part '{}' has a malformed percent-encoding",
                  ToValidUtf8(part));
    }
    parameters.emplace_back(std::move(*key), std::move(*value));
  }
  return parameters;
}

Result<AnswerStyle> TakeSystemParameters(QueryParameters& parameters) {
  AnswerStyle style;
  QueryParameters others;
  for (auto& [key, value] : parameters) {
    const std::string_view name =
        key.starts_with('$') ? std::string_view(key).substr(1) : std::string_view(key);
    if (name == "alt") {
      MUSTER_TRY(ReadAlt(value, style));
    } else if (name == "prettyPrint") {
      style.pretty = value == "true";
    } else if (!key.starts_with('$') && std::ranges::find(kIgnored, name) == kIgnored.end()) {
      others.emplace_back(std::move(key), std::move(value));
    }
  }
  parameters = std::move(others);
  return style;
}

Status BindQuery(const QueryParameters& parameters, std::string_view body_field,
                 google::protobuf::Message& request) {
  for (const auto& [key, value] : parameters) {
    const std::string_view first = std::string_view(key).substr(0, key.find('.'));
    const auto* const field =
        body_field.empty() || body_field == "*"
            ? nullptr
            : request.GetDescriptor()->FindFieldByName(std::string(body_field));
    if (body_field == "*" ||
        (field != nullptr && (field->name() == first || field->json_name() == first))) {
      return Fail(Code::kInvalidArgument,
                  "Invalid JSON payload received. Unknown name \"{}\": Cannot bind query "
                  "parameter. The field belongs to the request's body.",
                  ToValidUtf8(key));
    }
    MUSTER_TRY(SetFieldFromText(request, key, value, FieldTextUse::kQuery));
  }
  return {};
}

}  // namespace muster::server
