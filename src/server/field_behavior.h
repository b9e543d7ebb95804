// What google.api.field_behavior says of requests.
#pragma once

#include <google/protobuf/message.h>

namespace muster::server {

// Clears every field that is OUTPUT_ONLY, at any depth: clients send back what they were given
// (and some send such fields empty), and it has no effect.
void ClearOutputOnly(google::protobuf::Message& request);

}  // namespace muster::server
