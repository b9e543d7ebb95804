// musterd's REST API, as the commands use it: JSON in, JSON or an Error out.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "http/client.h"

namespace muster::cli {

// Finds musterd anew: it may have come back on another port.
using FindServer = std::function<Result<http::Endpoint>()>;

// Not thread-safe.
class Api {
 public:
  // `advice`: added to the error when nothing answers at the address found.
  explicit Api(FindServer find, std::chrono::milliseconds timeout = std::chrono::seconds(60),
               std::string advice = "")
      : find_(std::move(find)), timeout_(timeout), advice_(std::move(advice)) {}

  Result<nlohmann::json> Get(std::string_view target) { return Call("GET", target, nullptr); }
  Result<nlohmann::json> Delete(std::string_view target) { return Call("DELETE", target, nullptr); }
  Result<nlohmann::json> Post(std::string_view target, const nlohmann::json& body) {
    return Call("POST", target, &body);
  }
  // An answer that is not JSON (/healthz, /metrics).
  Result<std::string> GetText(std::string_view target);

  const FindServer& find() const { return find_; }

 private:
  Result<http::Response> CallOnce(const http::Request& request);
  Result<http::Response> Exchange(const http::Request& request);
  Result<nlohmann::json> Call(std::string_view method, std::string_view target,
                              const nlohmann::json* body);

  FindServer find_;
  std::chrono::milliseconds timeout_;
  std::string advice_;
  bool has_answered_ = false;
  std::unique_ptr<http::Client> client_;  // made at the first call and after a failed one
};

// For one segment of a path or one value of a query.
std::string PercentEncode(std::string_view text);

// `object[key]` if it is there and a string, else "".
std::string TextAt(const nlohmann::json& object, std::string_view key);
// `object[key]` if it is there, else null.
const nlohmann::json& ValueAt(const nlohmann::json& object, std::string_view key);

}  // namespace muster::cli
