#include "server/job_service.h"

#include <google/cloud/aiplatform/v1/job_service.pb.h>
#include <google/protobuf/empty.pb.h>

#include "control/job_control.h"
#include "server/method_table.h"
#include "server/resource_name.h"

namespace muster::server {

namespace v1 = google::cloud::aiplatform::v1;

void AddJobService(MethodTable& methods, control::JobControl& control) {
  methods.Add<v1::CreateCustomJobRequest, v1::CustomJob>(
      "google.cloud.aiplatform.v1.JobService/CreateCustomJob",
      [&control](const v1::CreateCustomJobRequest& request,
                 const CallContext&) -> Result<v1::CustomJob> {
        MUSTER_TRY(CheckName("parent", request.parent(), kLocationPattern));
        if (!request.has_custom_job()) {
          return Fail(Code::kInvalidArgument,
                      "'custom_job' is missing: the request's body is the CustomJob to create");
        }
        return control.Create(request.parent(), request.custom_job());
      });

  methods.Add<v1::GetCustomJobRequest, v1::CustomJob>(
      "google.cloud.aiplatform.v1.JobService/GetCustomJob",
      [&control](const v1::GetCustomJobRequest& request,
                 const CallContext&) -> Result<v1::CustomJob> {
        MUSTER_TRY(CheckName("name", request.name(), kCustomJobPattern));
        return control.Get(request.name());
      });

  methods.Add<v1::ListCustomJobsRequest, v1::ListCustomJobsResponse>(
      "google.cloud.aiplatform.v1.JobService/ListCustomJobs",
      [&control](const v1::ListCustomJobsRequest& request,
                 const CallContext&) -> Result<v1::ListCustomJobsResponse> {
        MUSTER_TRY(CheckName("parent", request.parent(), kLocationPattern));
        if (request.page_size() < 0) {
          return Fail(Code::kInvalidArgument, "Invalid value for 'page_size': {} is negative",
                      request.page_size());
        }
        MUSTER_ASSIGN(auto page, control.List({.parent = request.parent(),
                                               .filter = request.filter(),
                                               .page_size = request.page_size(),
                                               .page_token = request.page_token()}));
        v1::ListCustomJobsResponse response;
        for (auto& job : page.jobs) *response.add_custom_jobs() = std::move(job);
        response.set_next_page_token(page.next_page_token);
        return response;
      });

  methods.Add<v1::DeleteCustomJobRequest, google::longrunning::Operation>(
      "google.cloud.aiplatform.v1.JobService/DeleteCustomJob",
      [&control](const v1::DeleteCustomJobRequest& request,
                 const CallContext&) -> Result<google::longrunning::Operation> {
        MUSTER_TRY(CheckName("name", request.name(), kCustomJobPattern));
        return control.Delete(request.name());
      });

  methods.Add<v1::CancelCustomJobRequest, google::protobuf::Empty>(
      "google.cloud.aiplatform.v1.JobService/CancelCustomJob",
      [&control](const v1::CancelCustomJobRequest& request,
                 const CallContext&) -> Result<google::protobuf::Empty> {
        MUSTER_TRY(CheckName("name", request.name(), kCustomJobPattern));
        MUSTER_TRY(control.Cancel(request.name()));
        return google::protobuf::Empty();
      });
}

}  // namespace muster::server
