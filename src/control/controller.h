// JobControl on the store, the engine and one event loop.
//
// Thread rule: JobControl's methods come from any thread; engine::Listener's, Attach and Recover
// from the loop's (or before it runs). API calls read the store directly and post to the loop what
// changes a job, waiting for it at most kLoopDeadline.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/time.h"
#include "bucket/bucket.h"
#include "control/image_map.h"
#include "control/job_control.h"
#include "control/job_run.h"
#include "engine/engine.h"
#include "job/machine_type.h"
#include "store/store.h"

namespace muster::control {

class Controller final : public JobControl, public engine::Listener {
 public:
  struct Options {
    LaunchSite site;
    ImageMap images;
    job::MachineCatalog machines;
  };

  // More jobs that wait or run than this are refused with RESOURCE_EXHAUSTED.
  static constexpr int64_t kActiveJobsMax = 10'000;

  // Everything referred to outlives the Controller.
  Controller(boost::asio::io_context& loop, store::Store& store,
             const bucket::BucketDirectories& buckets, const Clock& clock, Options options);
  ~Controller() override;

  // Before Recover and before the first call.
  void Attach(engine::Engine& engine);
  // Takes up the jobs that were not ended when musterd was; returns how many.
  Result<int> Recover();

  Result<google::cloud::aiplatform::v1::CustomJob> Create(
      const std::string& parent, google::cloud::aiplatform::v1::CustomJob job) override;
  Result<google::cloud::aiplatform::v1::CustomJob> Get(const std::string& name) override;
  Result<ListJobsResponse> List(const ListJobsRequest& request) override;
  Status Cancel(const std::string& name) override;
  Result<google::longrunning::Operation> Delete(const std::string& name) override;
  Result<google::longrunning::Operation> GetOperation(const std::string& name) override;
  Result<muster::v1::JobView> View(const std::string& name) override;
  Result<LogSources> Logs(const std::string& name) override;
  logs::ReadEvents EventReader(const std::string& job_uid) override;
  Result<muster::v1::ReportResponse> Report(const muster::v1::ReportRequest& report) override;
  Counts counts() override;

  void OnAdmitted(const std::string& job_uid, const engine::Grant& grant) override;
  void OnAgentEnded(const engine::AttemptKey& attempt) override;

 private:
  int64_t NextId();
  void Take(std::unique_ptr<JobRun> run);
  JobRun* Find(const std::string& job_uid);
  void Finished(JobRun& run);
  std::unique_ptr<JobRun> MakeRun(google::cloud::aiplatform::v1::CustomJob job,
                                  store::JobRecord record, job::JobPlan plan,
                                  job::Lifecycle lifecycle);
  Result<google::cloud::aiplatform::v1::CustomJob> ReadJob(const std::string& name) const;
  // The plan of a job that was accepted once, also if its site's machine types have changed since.
  Result<job::JobPlan> PlanOf(const google::cloud::aiplatform::v1::CustomJob& job) const;
  Status CheckEnded(const std::string& name) const;
  void RemoveDeletedJobs() const;
  Status Resume(const store::JobRecord& record);
  // For a job that cannot be resumed: its replicas are stopped, and it is FAILED.
  Status GiveUp(const store::JobRecord& record, const Error& reason);
  // Runs `work` on the loop and waits for the status it passes on.
  using Done = std::function<void(Status)>;
  Status OnLoop(std::function<void(const Done&)> work);

  boost::asio::io_context& loop_;
  store::Store& store_;
  const bucket::BucketDirectories& buckets_;
  const Clock& clock_;
  const Options options_;
  engine::Engine* engine_ = nullptr;
  std::optional<RunContext> context_;

  std::map<std::string, std::unique_ptr<JobRun>> runs_;  // by uid; the loop's

  std::atomic<int64_t> last_id_{0};
  std::atomic<int64_t> active_jobs_{0};
  struct {
    std::atomic<int64_t> created{0}, succeeded{0}, failed{0}, cancelled{0};
  } totals_;
};

}  // namespace muster::control
