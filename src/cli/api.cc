#include "cli/api.h"

#include <algorithm>
#include <cctype>

namespace muster::cli {

using nlohmann::json;

Result<http::Response> Api::CallOnce(const http::Request& request) {
  if (!client_) {
    MUSTER_ASSIGN(http::Endpoint endpoint, find_());
    client_ = std::make_unique<http::Client>(std::move(endpoint));
  }
  Result<http::Response> response = client_->Call(request, timeout_);
  has_answered_ |= response.has_value();
  if (response) return response;
  client_.reset();
  if (response.error().code != Code::kUnavailable || has_answered_) return response;
  return Fail(Code::kUnavailable, "{}{}", response.error().message, advice_);
}

Result<http::Response> Api::Exchange(const http::Request& request) {
  const bool may_repeat = request.method == "GET" || request.target.ends_with(":cancel");
  const bool had_client = client_ != nullptr;
  Result<http::Response> response = CallOnce(request);
  if (!response && response.error().code == Code::kUnavailable && had_client && may_repeat) {
    response = CallOnce(request);  // musterd may be elsewhere by now
  }
  if (!response) return std::unexpected(response.error());
  if (response->status < 200 || response->status > 299) {
    return std::unexpected(http::ErrorOfResponse(*response));
  }
  return response;
}

Result<json> Api::Call(std::string_view method, std::string_view target, const json* body) {
  http::Request request;
  request.method = method;
  request.target = target;
  if (body != nullptr) request.body = body->dump(-1, ' ', false, json::error_handler_t::replace);
  MUSTER_ASSIGN(const http::Response response, Exchange(request));
  json value = json::parse(response.body, nullptr, false);
  if (value.is_discarded()) {
    return Fail(Code::kInternal, "the server's answer to {} {} is not JSON; is it a musterd?",
                method, target);
  }
  return value;
}

Result<std::string> Api::GetText(std::string_view target) {
  http::Request request;
  request.target = target;
  request.headers_accept = "*/*";
  MUSTER_ASSIGN(http::Response response, Exchange(request));
  return std::move(response.body);
}

std::string PercentEncode(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || std::string_view("-._~").find(c) != std::string_view::npos) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", byte);
    }
  }
  return encoded;
}

const json& ValueAt(const json& object, std::string_view key) {
  static const json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(std::string(key));
  return found == object.end() ? kNull : *found;
}

std::string TextAt(const json& object, std::string_view key) {
  const json& value = ValueAt(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

}  // namespace muster::cli
