// The control plane: takes jobs from the API, drives each one's Lifecycle, has the engine place
// agents, believes what agents report, and keeps it all in the store before acting on it.
#pragma once

#include <google/cloud/aiplatform/v1/custom_job.pb.h>
#include <google/longrunning/operations.pb.h>
#include <muster/v1/agent.pb.h>
#include <muster/v1/job_view.pb.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "logs/merge.h"

namespace muster::control {

struct ListJobsRequest {
  std::string parent;
  std::string filter;
  int page_size = 0;
  std::string page_token;
};

struct ListJobsResponse {
  std::vector<google::cloud::aiplatform::v1::CustomJob> jobs;
  std::string next_page_token;
};

// Where a job's logs are, and whether more may come. Sources only ever grow.
struct LogSources {
  std::string job_uid;
  std::vector<logs::Source> sources;
  bool ended = false;  // the job is terminal: what is on disk is all
  int state = 0;       // google.cloud.aiplatform.v1.JobState
};

// Thread-safe: every method may be called from any thread, and may block for a disk write.
class JobControl {
 public:
  virtual ~JobControl() = default;

  virtual Result<google::cloud::aiplatform::v1::CustomJob> Create(
      const std::string& parent, google::cloud::aiplatform::v1::CustomJob job) = 0;
  virtual Result<google::cloud::aiplatform::v1::CustomJob> Get(const std::string& name) = 0;
  virtual Result<ListJobsResponse> List(const ListJobsRequest& request) = 0;
  virtual Status Cancel(const std::string& name) = 0;
  virtual Result<google::longrunning::Operation> Delete(const std::string& name) = 0;

  virtual Result<google::longrunning::Operation> GetOperation(const std::string& name) = 0;

  virtual Result<muster::v1::JobView> View(const std::string& name) = 0;
  virtual Result<LogSources> Logs(const std::string& name) = 0;
  virtual logs::ReadEvents EventReader(const std::string& job_uid) = 0;

  virtual Result<muster::v1::ReportResponse> Report(const muster::v1::ReportRequest& report) = 0;

  struct Counts {
    int64_t jobs_created = 0;
    int64_t jobs_waiting = 0;
    int64_t jobs_active = 0;  // admitted and not ended
    int64_t replicas_running = 0;
    int64_t jobs_succeeded = 0;  // since this process started, as the next two
    int64_t jobs_failed = 0;
    int64_t jobs_cancelled = 0;
  };
  virtual Counts counts() = 0;
};

}  // namespace muster::control
