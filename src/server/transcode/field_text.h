// Sets a message's field from text, as query parameters and path variables give it.
#pragma once

#include <google/protobuf/message.h>

#include <string_view>

#include "base/error.h"

namespace muster::server {

enum class FieldTextUse {
  kQuery,  // repeated fields take one element a call; a singular field set before is an error
  kPath,   // the path's value wins over what the body said
};

// `field_path`: dotted, each name in snake_case or camelCase. Understands scalars, enums by name or
// number, bytes in base64, Timestamp, Duration, FieldMask (paths in either case) and the wrapper
// types. INVALID_ARGUMENT in the API's own words:
//   no such field:  … Unknown name "a.b": Cannot bind query parameter. …
//   a wrong value:  Invalid value at 'page_size' (TYPE_INT32), "many"
Status SetFieldFromText(google::protobuf::Message& message, std::string_view field_path,
                        std::string_view text, FieldTextUse use);

}  // namespace muster::server
