// JSON ↔ messages, with the API's own error texts.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

#include "base/error.h"
#include "server/transcode/query.h"

namespace muster::server {

// Adds the JSON object to `message`: names in snake_case or camelCase, enums as names or numbers,
// 64-bit integers as strings or numbers. `path` is where the object stands in the request
// ("custom_job"; empty: it is the request), for the errors:
//   Invalid JSON payload received. Unknown name "foo" at 'custom_job.job_spec': Cannot find field.
//   Invalid value at 'custom_job.job_spec.worker_pool_specs[0].replica_count' (TYPE_INT64), "two"
Status ReadJson(std::string_view json, std::string_view path, google::protobuf::Message& message);

// proto3 JSON: camelCase, defaults left out, 64-bit integers as strings.
Result<std::string> WriteJson(const google::protobuf::Message& message, const AnswerStyle& style);

}  // namespace muster::server
