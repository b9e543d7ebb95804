#include "server/operations_service.h"

#include <google/longrunning/operations.pb.h>

#include "control/job_control.h"
#include "server/method_table.h"

namespace muster::server {

namespace lro = google::longrunning;

void AddOperationsService(MethodTable& methods, control::JobControl& control) {
  methods.Add<lro::GetOperationRequest, lro::Operation>(
      "google.longrunning.Operations/GetOperation",
      [&control](const lro::GetOperationRequest& request,
                 const CallContext&) -> Result<lro::Operation> {
        if (request.name().find("operations/") == std::string::npos) {
          return Fail(Code::kInvalidArgument,
                      "Invalid value for 'name': \"{}\" is not an operation's name, which ends in "
                      "operations/ID",
                      request.name());
        }
        return control.GetOperation(request.name());
      });
}

}  // namespace muster::server
