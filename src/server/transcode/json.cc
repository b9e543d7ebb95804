#include "server/transcode/json.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "base/utf8.h"

namespace muster::server {
namespace {

namespace util = google::protobuf::util;

std::string JoinPath(std::string_view outer, std::string_view inner) {
  if (outer.empty() || inner.empty()) return fmt::format("{}{}", outer, inner);
  return fmt::format("{}.{}", outer, inner);
}

// protobuf's parser is the API's own, but its library words errors differently and knows nothing
// of where the message stands in the request:
//   (job_spec) foo: Cannot find field.                    an unknown name
//   (job_spec.scheduling.timeout): invalid value "x" for type type.googleapis.com/…
//   foo: Cannot find field.                               the same at the top
//   Unexpected token.\n{…\n^                              not JSON
std::string ApiWords(std::string_view text, std::string_view outer) {
  std::string_view path;
  std::string_view rest = text;
  if (rest.starts_with('(')) {
    const size_t close = rest.find(')');
    path = rest.substr(1, close - 1);
    rest.remove_prefix(std::min(rest.size(), close + 1));
  }
  const std::string full_path = JoinPath(outer, path);

  constexpr std::string_view kInvalid = ": invalid value ";
  constexpr std::string_view kForType = " for type ";
  if (rest.starts_with(kInvalid)) {
    rest.remove_prefix(kInvalid.size());
    const size_t type = rest.rfind(kForType);
    if (type == std::string_view::npos)
      return fmt::format("Invalid value at '{}', {}", full_path, rest);
    return fmt::format("Invalid value at '{}' ({}), {}", full_path,
                       rest.substr(type + kForType.size()), rest.substr(0, type));
  }

  for (const std::string_view message :
       {std::string_view(": Cannot find field."),
        std::string_view(": Proto field is not repeating, cannot start list.")}) {
    if (!rest.ends_with(message)) continue;
    std::string_view name = rest.substr(0, rest.size() - message.size());
    if (name.starts_with(' ')) name.remove_prefix(1);
    const std::string place = full_path.empty() ? "" : fmt::format(" at '{}'", full_path);
    return fmt::format("Invalid JSON payload received. Unknown name \"{}\"{}{}", name, place,
                       message);
  }
  if (rest.starts_with(": ")) rest.remove_prefix(2);
  return fmt::format("Invalid JSON payload received. {}", rest);
}

}  // namespace

Status ReadJson(std::string_view json, std::string_view path, google::protobuf::Message& message) {
  const auto status = util::JsonStringToMessage(json, &message);
  if (status.ok()) return {};
  const auto text = status.message();
  return Fail(Code::kInvalidArgument, "{}",
              ApiWords(ToValidUtf8(std::string_view(text.data(), text.size())), path));
}

Result<std::string> WriteJson(const google::protobuf::Message& message, const AnswerStyle& style) {
  util::JsonPrintOptions options;
  options.always_print_enums_as_ints = style.enums_as_integers;
  options.add_whitespace = style.pretty;
  std::string json;
  const auto status = util::MessageToJsonString(message, &json, options);
  if (!status.ok()) {
    return Fail(Code::kInternal, "The answer of type {} has no JSON form: {}",
                message.GetTypeName(), status.ToString());
  }
  return json;
}

}  // namespace muster::server
