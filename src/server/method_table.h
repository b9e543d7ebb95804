// Every API method once: the gRPC door and the REST door look methods up here, so that a handler
// knows neither, and a method that is missing answers UNIMPLEMENTED with its name on both.
#pragma once

#include <google/protobuf/message.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace muster::server {

using MessagePtr = std::unique_ptr<google::protobuf::Message>;

// What a handler may know of the call beside its request.
struct CallContext {
  std::string method;  // "google.cloud.aiplatform.v1.JobService/GetCustomJob"
  std::string peer;    // "127.0.0.1:41234", for the log
};

struct Method {
  const google::protobuf::Descriptor* request = nullptr;
  const google::protobuf::Descriptor* response = nullptr;
  // May block; is called on a worker thread. The request is of type `request`.
  std::function<Result<MessagePtr>(const google::protobuf::Message&, const CallContext&)> handle;
};

// The answer of both doors to a method that is not in the table.
inline Error Unimplemented(std::string_view method_name) {
  return {Code::kUnimplemented,
          fmt::format("Method {} is not implemented by this server.", method_name)};
}

// Filled in by the main before serving, read-only afterwards.
class MethodTable {
 public:
  // name: "package.Service/Method". The service's descriptor must be linked in.
  template <typename Request, typename Response>
  void Add(std::string name,
           std::function<Result<Response>(const Request&, const CallContext&)> handle) {
    Method method;
    method.request = Request::descriptor();
    method.response = Response::descriptor();
    method.handle = [handle = std::move(handle)](const google::protobuf::Message& request,
                                                 const CallContext& context) -> Result<MessagePtr> {
      Result<Response> response = handle(static_cast<const Request&>(request), context);
      if (!response) return std::unexpected(response.error());
      return std::make_unique<Response>(std::move(*response));
    };
    methods_.emplace(std::move(name), std::move(method));
  }

  // Null if there is none.
  const Method* Find(std::string_view name) const {
    const auto it = methods_.find(name);
    return it == methods_.end() ? nullptr : &it->second;
  }

  const std::map<std::string, Method, std::less<>>& all() const { return methods_; }

 private:
  std::map<std::string, Method, std::less<>> methods_;
};

}  // namespace muster::server
