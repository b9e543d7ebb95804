#include "server/agent_service.h"

#include <muster/v1/agent.pb.h>

#include "control/job_control.h"
#include "server/method_table.h"

namespace muster::server {

void AddAgentService(MethodTable& methods, control::JobControl& control) {
  methods.Add<v1::ReportRequest, v1::ReportResponse>(
      "muster.v1.AgentService/Report",
      [&control](const v1::ReportRequest& request,
                 const CallContext&) -> Result<v1::ReportResponse> {
        if (!request.has_id()) {
          return Fail(Code::kInvalidArgument, "'id' is missing: which attempt reports?");
        }
        return control.Report(request);
      });
}

}  // namespace muster::server
