#include "server/call.h"

#include <exception>

#include "base/log.h"
#include "server/field_behavior.h"
#include "server/read_mask.h"

namespace muster::server {

Result<MessagePtr> RunCall(const Method& method, google::protobuf::Message& request,
                           const CallContext& context) {
  try {
    MUSTER_TRY(CheckReadMask(request, *method.response));
    ClearOutputOnly(request);
    MUSTER_ASSIGN(MessagePtr response, method.handle(request, context));
    ApplyReadMask(request, *response);
    return response;
  } catch (const std::exception& exception) {
    LogError("{} called by {} threw: {}", context.method, context.peer, exception.what());
    return Fail(Code::kInternal, "{} failed inside the server; its log says more", context.method);
  }
}

}  // namespace muster::server
