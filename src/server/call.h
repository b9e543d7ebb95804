// Carries out one call of a method: what the gRPC door and the REST door share.
#pragma once

#include <google/protobuf/message.h>

#include "base/error.h"
#include "server/method_table.h"

namespace muster::server {

// On a worker thread: drops output-only fields from the request, runs the handler, trims the answer
// to the request's read mask. A handler that throws is INTERNAL, and the log says so.
Result<MessagePtr> RunCall(const Method& method, google::protobuf::Message& request,
                           const CallContext& context);

}  // namespace muster::server
