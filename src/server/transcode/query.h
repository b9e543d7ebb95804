// The part of a URL after "?".
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace muster::server {

// Decoded, in order; empty parts ("a=1&&b=2") are skipped. INVALID_ARGUMENT on a malformed escape.
using QueryParameters = std::vector<std::pair<std::string, std::string>>;
Result<QueryParameters> ParseQuery(std::string_view query);

// What the answer is to look like.
struct AnswerStyle {
  bool enums_as_integers = false;  // alt=json;enum-encoding=int
  bool pretty = false;             // prettyPrint=true
};

// Takes the parameters that every method has (those with "$", alt, prettyPrint, key, access_token
// and the like) out of `parameters`. INVALID_ARGUMENT if another answer than JSON is asked for.
Result<AnswerStyle> TakeSystemParameters(QueryParameters& parameters);

// Sets the request's fields. `body_field` is bound to the body and may not be named: "*" leaves
// nothing for the query.
Status BindQuery(const QueryParameters& parameters, std::string_view body_field,
                 google::protobuf::Message& request);

}  // namespace muster::server
