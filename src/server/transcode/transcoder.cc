#include "server/transcode/transcoder.h"

#include <fmt/format.h>
#include <google/api/annotations.pb.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "base/check.h"
#include "base/utf8.h"
#include "server/transcode/field_text.h"
#include "server/transcode/json.h"
#include "server/transcode/path_template.h"

namespace muster::server {

namespace pb = google::protobuf;

struct Transcoder::Route {
  std::string http_method;
  PathTemplate path;
  std::string body;
  std::string method_name;
  const pb::MethodDescriptor* descriptor = nullptr;
};

namespace {

// "package.Service/Method" of the generated pool; null if it is not linked in.
const pb::MethodDescriptor* FindDescriptor(const std::string& method_name) {
  std::string full_name = method_name;
  std::ranges::replace(full_name, '/', '.');
  return pb::DescriptorPool::generated_pool()->FindMethodByName(full_name);
}

std::string MethodName(const pb::MethodDescriptor& method) {
  return method.service()->full_name() + "/" + method.name();
}

struct HttpPattern {
  std::string http_method;
  std::string path;
};

HttpPattern PatternOf(const google::api::HttpRule& rule) {
  switch (rule.pattern_case()) {
    case google::api::HttpRule::kGet:
      return {"GET", rule.get()};
    case google::api::HttpRule::kPut:
      return {"PUT", rule.put()};
    case google::api::HttpRule::kPost:
      return {"POST", rule.post()};
    case google::api::HttpRule::kDelete:
      return {"DELETE", rule.delete_()};
    case google::api::HttpRule::kPatch:
      return {"PATCH", rule.patch()};
    case google::api::HttpRule::kCustom:
      return {rule.custom().kind(), rule.custom().path()};
    case google::api::HttpRule::PATTERN_NOT_SET:
      break;
  }
  return {};
}

std::pair<std::string_view, std::string_view> SplitTarget(std::string_view target) {
  target = target.substr(0, target.find('#'));
  const size_t question = target.find('?');
  if (question == std::string_view::npos) return {target, {}};
  return {target.substr(0, question), target.substr(question + 1)};
}

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

Status ReadBody(const std::string& body_field, std::string_view body, pb::Message& request) {
  if (IsBlank(body)) return {};
  if (body_field.empty()) {
    if (body == "{}") return {};  // some clients always send one
    return Fail(Code::kInvalidArgument,
                "Invalid JSON payload received. This method takes no request body; give its "
                "parameters in the URL.");
  }
  if (body_field == "*") return ReadJson(body, "", request);
  const auto* const field = request.GetDescriptor()->FindFieldByName(body_field);
  return ReadJson(body, body_field, *request.GetReflection()->MutableMessage(&request, field));
}

}  // namespace

TranscoderOptions OfficialTranscoderOptions() {
  TranscoderOptions options;
  options.aliases.push_back({"/v1/", "/v1beta1/"});
  for (const std::string version : {"/v1/", "/v1beta1/", "/ui/"}) {
    const std::string name = version + "{name=projects/*/locations/*/**/operations/*}";
    options.extra_rules.push_back({"google.longrunning.Operations/GetOperation", "GET", name, ""});
    options.extra_rules.push_back(
        {"google.longrunning.Operations/DeleteOperation", "DELETE", name, ""});
    options.extra_rules.push_back(
        {"google.longrunning.Operations/CancelOperation", "POST", name + ":cancel", "*"});
    options.extra_rules.push_back(
        {"google.longrunning.Operations/WaitOperation", "POST", name + ":wait", "*"});
    options.extra_rules.push_back({"google.longrunning.Operations/ListOperations", "GET",
                                   version + "{name=projects/*/locations/*/**}/operations", ""});
  }
  return options;
}

Transcoder::Transcoder(const MethodTable& methods, const TranscoderOptions& options)
    : methods_(methods) {
  std::set<const pb::ServiceDescriptor*> services;
  for (const auto& [name, method] : methods.all()) {
    const auto* const descriptor = FindDescriptor(name);
    MUSTER_CHECK(descriptor != nullptr);
    services.insert(descriptor->service());
  }
  for (const auto* service : services) AddService(*service, options);
  for (const ExtraRule& rule : options.extra_rules) {
    const auto* const descriptor = FindDescriptor(rule.method);
    if (descriptor == nullptr || !services.contains(descriptor->service())) continue;
    AddRule(rule.method, rule.http_method, rule.path_template, rule.body);
  }
  std::vector<Route> with_verb;
  std::vector<Route> plain;
  for (Route& route : routes_) {
    (route.path.verb().empty() ? plain : with_verb).push_back(std::move(route));
  }
  routes_ = std::move(with_verb);
  std::ranges::move(plain, std::back_inserter(routes_));
}

Transcoder::~Transcoder() = default;

void Transcoder::AddService(const pb::ServiceDescriptor& service,
                            const TranscoderOptions& options) {
  const auto add = [&](const std::string& name, const google::api::HttpRule& rule) {
    const HttpPattern pattern = PatternOf(rule);
    AddRule(name, pattern.http_method, pattern.path, rule.body());
    for (const PathAlias& alias : options.aliases) {
      if (!pattern.path.starts_with(alias.prefix)) continue;
      AddRule(name, pattern.http_method, alias.alias + pattern.path.substr(alias.prefix.size()),
              rule.body());
    }
  };
  for (int i = 0; i < service.method_count(); ++i) {
    const pb::MethodDescriptor& method = *service.method(i);
    if (!method.options().HasExtension(google::api::http)) continue;
    const google::api::HttpRule& rule = method.options().GetExtension(google::api::http);
    add(MethodName(method), rule);
    for (const auto& additional : rule.additional_bindings()) add(MethodName(method), additional);
  }
}

void Transcoder::AddRule(const std::string& method_name, const std::string& http_method,
                         const std::string& path_template, const std::string& body) {
  auto path = PathTemplate::Parse(path_template);
  MUSTER_CHECK(path.has_value());
  Route route{http_method, std::move(*path), body, method_name, FindDescriptor(method_name)};
  MUSTER_CHECK(route.descriptor != nullptr);
  if (!body.empty() && body != "*") {
    const auto* const field = route.descriptor->input_type()->FindFieldByName(body);
    MUSTER_CHECK(field != nullptr && field->message_type() != nullptr && !field->is_repeated());
  }
  routes_.push_back(std::move(route));
}

std::string Transcoder::AllowedMethods(std::string_view path) const {
  const auto split = SplitUrlPath(SplitTarget(path).first);
  if (!split) return "";
  std::vector<std::string_view> methods;
  bool verb_known = false;
  for (const Route& route : routes_) {
    if (verb_known && route.path.verb().empty()) break;
    if (!route.path.Match(*split)) continue;
    verb_known = !route.path.verb().empty();
    if (std::ranges::find(methods, route.http_method) == methods.end()) {
      methods.push_back(route.http_method);
    }
  }
  return fmt::format("{}", fmt::join(methods, ", "));
}

std::expected<RestCall, HttpError> Transcoder::Read(const RestRequest& request) const {
  const auto [path, query] = SplitTarget(request.target);
  const auto split = SplitUrlPath(path);
  const Route* found = nullptr;
  std::vector<PathTemplate::Binding> bindings;
  bool verb_known = false;  // a path with a known verb is never also a resource
  for (const Route& route : routes_) {
    const bool plain = route.path.verb().empty();
    if (!split || (verb_known && plain)) break;
    const bool wanted = route.http_method == request.http_method;
    if (plain && !wanted) continue;
    auto match = route.path.Match(*split);
    if (!match) continue;
    if (wanted) {
      found = &route;
      bindings = std::move(*match);
      break;
    }
    verb_known = true;
  }
  if (found == nullptr) {
    const std::string allow = AllowedMethods(path);
    if (allow.empty()) {
      return std::unexpected(
          Error{Code::kNotFound, fmt::format("The path {} was not found on this server.",
                                             ToValidUtf8(path.substr(0, 500)))});
    }
    HttpError error(405,
                    {Code::kUnimplemented, fmt::format("The path {} has no method {}, only: {}.",
                                                       ToValidUtf8(path.substr(0, 500)),
                                                       ToValidUtf8(request.http_method), allow)});
    error.allow = allow;
    return std::unexpected(error);
  }

  RestCall call;
  call.method_name = found->method_name;
  call.method = methods_.Find(found->method_name);
  if (call.method == nullptr) {
    return std::unexpected(Unimplemented(found->method_name));
  }
  call.request.reset(
      pb::MessageFactory::generated_factory()->GetPrototype(call.method->request)->New());

  const auto fill = [&]() -> Status {
    MUSTER_ASSIGN(QueryParameters parameters, ParseQuery(query));
    MUSTER_ASSIGN(call.style, TakeSystemParameters(parameters));
    MUSTER_TRY(ReadBody(found->body, request.body, *call.request));
    for (const auto& [field_path, value] : bindings) {
      MUSTER_TRY(SetFieldFromText(*call.request, field_path, value, FieldTextUse::kPath));
    }
    return BindQuery(parameters, found->body, *call.request);
  };
  if (auto status = fill(); !status) return std::unexpected(HttpError(status.error()));
  return call;
}

}  // namespace muster::server
