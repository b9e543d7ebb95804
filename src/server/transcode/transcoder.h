// REST requests as calls of the methods in the table, by the google.api.http annotations of their
// services. No route is written by hand: a service's methods have routes as soon as one of them is
// in the table, and those that are not in it answer UNIMPLEMENTED with their name.
#pragma once

#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_status.h"
#include "server/method_table.h"
#include "server/transcode/query.h"

namespace muster::server {

// A route beside those of the annotations.
struct ExtraRule {
  std::string method;         // "google.longrunning.Operations/GetOperation"
  std::string http_method;    // "GET"
  std::string path_template;  // "/ui/{name=operations/**}"
  std::string body;           // "", "*" or a field's name
};

// Every annotation's template that begins with `prefix` is served with `alias` in its place too.
struct PathAlias {
  std::string prefix;  // "/v1/"
  std::string alias;   // "/v1beta1/"
};

struct TranscoderOptions {
  std::vector<ExtraRule> extra_rules;
  std::vector<PathAlias> aliases;
};

// What official clients use beyond the annotations: v1beta1 (gcloud beta), and operations by their
// full names, also below /ui/ (Python's and Node's REST transports).
TranscoderOptions OfficialTranscoderOptions();

struct RestRequest {
  std::string_view http_method;
  std::string_view target;  // path and query, percent-encoded
  std::string_view body;
};

struct RestCall {
  std::string method_name;
  const Method* method = nullptr;
  MessagePtr request;
  AnswerStyle style;
};

// Thread-safe: read-only after construction.
class Transcoder {
 public:
  // Both must be built: a bad template or a rule of an unknown method is a broken invariant.
  Transcoder(const MethodTable& methods, const TranscoderOptions& options);
  ~Transcoder();

  // 404 for an unknown path, 405 (with `allow`) for a path that has other methods, 501 for a
  // method that is not implemented, 400 for bad queries and bodies.
  std::expected<RestCall, HttpError> Read(const RestRequest& request) const;

  // The methods that a path has: "GET, DELETE"; empty if there is no such path.
  std::string AllowedMethods(std::string_view path) const;

 private:
  struct Route;
  void AddService(const google::protobuf::ServiceDescriptor& service,
                  const TranscoderOptions& options);
  void AddRule(const std::string& method_name, const std::string& http_method,
               const std::string& path_template, const std::string& body);

  const MethodTable& methods_;
  std::vector<Route> routes_;  // those with a verb first
};

}  // namespace muster::server
