// Controller::View: what Muster knows of a job beyond its CustomJob.

#include <filesystem>

#include "control/controller.h"
#include "control/grant_json.h"

namespace muster::control {

namespace aip = google::cloud::aiplatform::v1;

Result<muster::v1::JobView> Controller::View(const std::string& name) {
  MUSTER_ASSIGN(const store::JobRecord record, store_.GetJob(name));
  MUSTER_ASSIGN(const aip::CustomJob job, ReadJob(name));
  MUSTER_ASSIGN(const job::JobPlan plan, PlanOf(job));
  MUSTER_ASSIGN(const std::vector<store::AttemptRecord> attempts, store_.Attempts(record.job_uid));
  engine::Grant grant;
  if (!record.grant.empty()) {
    MUSTER_ASSIGN(grant, GrantFromJson(record.grant));
  }

  muster::v1::JobView view;
  view.set_name(name);
  view.set_job_uid(record.job_uid);
  view.set_state(aip::JobState_Name(job.state()));
  if (job.state() == aip::JOB_STATE_QUEUED) {
    view.set_waiting_reason(engine_->WhyWaiting(record.job_uid));
  }
  if (!grant.places.empty()) view.set_network(grant.private_network ? "private" : "host");
  view.set_directory(JobDirectory(options_.site, record.job_uid));
  for (const std::string& warning : grant.warnings) view.add_warnings(warning);
  if (!plan.base_output_directory.empty()) {
    MUSTER_ASSIGN(*view.mutable_model_directory(),
                  buckets_.HostPath(plan.base_output_directory + "/model/"));
  }
  for (const job::ReplicaId replica : plan.Replicas()) {
    const job::PoolPlan& pool = *plan.FindPool(replica.pool);
    muster::v1::ReplicaView& shown = *view.add_replicas();
    shown.set_task_name(job::ReplicaName(replica));
    shown.set_role(std::string(job::RoleName(pool.role)));
    shown.set_machine_type(pool.machine.name);
    if (const auto place = grant.places.find(replica); place != grant.places.end()) {
      shown.set_address(fmt::format("{}:{}", place->second.host, place->second.port));
      for (const int gpu : place->second.gpus) shown.add_gpus(gpu);
    }
    for (const store::AttemptRecord& attempt : attempts) {
      if (job::ReplicaId{attempt.pool, attempt.index} != replica) continue;
      if (!shown.add_attempts()->ParseFromString(attempt.view)) {
        return Fail(Code::kDataLoss, "the attempts of {} cannot be read from the store", name);
      }
    }
  }
  return view;
}

}  // namespace muster::control
