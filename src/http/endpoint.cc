#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "http/client.h"

namespace muster::http {

namespace {
bool IsPort(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0 && value <= 65535 &&
         text.front() != '+';
}

Code CodeOfHttpStatus(int status) {
  switch (status) {
    case 400:
      return Code::kInvalidArgument;
    case 401:
      return Code::kUnauthenticated;
    case 403:
      return Code::kPermissionDenied;
    case 404:
      return Code::kNotFound;
    case 409:
      return Code::kAborted;
    case 412:
      return Code::kFailedPrecondition;
    case 413:
    case 429:
      return Code::kResourceExhausted;
    case 499:
      return Code::kCancelled;
    case 501:
      return Code::kUnimplemented;
    case 502:
    case 503:
      return Code::kUnavailable;
    case 504:
      return Code::kDeadlineExceeded;
    default:
      return status >= 500 ? Code::kInternal : Code::kUnknown;
  }
}
}  // namespace

Result<Endpoint> ParseEndpoint(std::string_view text) {
  const auto bad = [text](std::string_view why) {
    return Fail(Code::kInvalidArgument, "'{}' is not an endpoint such as 127.0.0.1:8080: {}", text,
                why);
  };
  std::string_view rest = text;
  if (rest.starts_with("https://")) return bad("TLS is not supported here, use http://");
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const size_t colon = rest.rfind(':');
  const bool in_brackets = rest.starts_with('[');
  if (colon == std::string_view::npos || (in_brackets && rest[colon - 1] != ']')) {
    return bad("its port is missing");
  }
  std::string_view host = rest.substr(0, colon);
  const std::string_view port = rest.substr(colon + 1);
  if (in_brackets) host = host.substr(1, host.size() - 2);
  if (host.empty()) return bad("its host is missing");
  if (!in_brackets && host.find(':') != std::string_view::npos) {
    return bad("an IPv6 address stands in brackets, as in [::1]:8080");
  }
  if (host.find_first_of("/?#@ \t\r\n[]") != std::string_view::npos) return bad("its host is odd");
  if (!IsPort(port)) return bad("its port is not a number from 1 to 65535");
  return Endpoint{std::string(host), std::string(port)};
}

Result<Endpoint> ReadEndpointFile(const std::string& path) {
  MUSTER_ASSIGN(const std::string text, ReadFile(path));
  const auto document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("address") || !document["address"].is_string()) {
    return Fail(Code::kDataLoss, "{} does not tell musterd's address", path);
  }
  MUSTER_ASSIGN(Endpoint endpoint, ParseEndpoint(document["address"].get<std::string>()));
  // A server that listens on every interface is reached through loopback.
  if (endpoint.host == "0.0.0.0") endpoint.host = "127.0.0.1";
  if (endpoint.host == "::") endpoint.host = "::1";
  return endpoint;
}

Error ErrorOfResponse(const Response& response) {
  Error error{CodeOfHttpStatus(response.status), ""};
  const auto document = nlohmann::json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  if (document.is_object() && document.contains("error") && document["error"].is_object()) {
    const auto& inner = document["error"];
    if (inner.contains("message") && inner["message"].is_string()) {
      error.message = inner["message"].get<std::string>();
    }
    if (inner.contains("status") && inner["status"].is_string()) {
      const auto name = inner["status"].get<std::string>();
      for (int code = 1; code <= 16; ++code) {
        if (CodeName(Code(code)) == name) error.code = Code(code);
      }
    }
  }
  if (error.message.empty()) {
    error.message = fmt::format("the server answered with HTTP status {}", response.status);
    std::string_view shown = std::string_view(response.body).substr(0, 200);
    const bool readable = std::ranges::all_of(shown, [](char c) { return c >= ' ' && c != 127; });
    if (!shown.empty() && readable) error.message += fmt::format(": {}", shown);
  }
  return error;
}

}  // namespace muster::http
