// A control plane in memory, for the server's tests: keeps jobs, runs nothing.
#pragma once

#include <google/cloud/aiplatform/v1/operation.pb.h>
#include <google/protobuf/empty.pb.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/thread_annotations.h"
#include "control/job_control.h"

namespace muster::server {

class FakeJobControl final : public control::JobControl {
 public:
  using CustomJob = google::cloud::aiplatform::v1::CustomJob;

  Result<CustomJob> Create(const std::string& parent, CustomJob job) override {
    if (before_create) before_create();
    MutexLock lock(mutex_);
    if (job.display_name() == "bad") {
      return Fail(Code::kInvalidArgument, "List of found errors:\t1.Field: x; Message: bad.\t");
    }
    if (job.display_name() == "throw") throw std::runtime_error("a handler's mistake");
    received_.push_back(job);
    job.set_name(parent + "/customJobs/" + std::to_string(++last_id_));
    job.set_state(google::cloud::aiplatform::v1::JOB_STATE_QUEUED);
    job.mutable_create_time()->set_seconds(1'700'000'000);
    jobs_[job.name()] = job;
    return job;
  }

  Result<CustomJob> Get(const std::string& name) override {
    MutexLock lock(mutex_);
    const auto it = jobs_.find(name);
    if (it == jobs_.end()) return NotFound(name);
    return it->second;
  }

  Result<control::ListJobsResponse> List(const control::ListJobsRequest& request) override {
    MutexLock lock(mutex_);
    last_list_ = request;
    control::ListJobsResponse response;
    for (const auto& [name, job] : jobs_) response.jobs.push_back(job);
    response.next_page_token = "next";
    return response;
  }

  Status Cancel(const std::string& name) override {
    MutexLock lock(mutex_);
    if (!jobs_.contains(name)) return NotFound(name);
    jobs_[name].set_state(google::cloud::aiplatform::v1::JOB_STATE_CANCELLED);
    return {};
  }

  Result<google::longrunning::Operation> Delete(const std::string& name) override {
    MutexLock lock(mutex_);
    if (jobs_.erase(name) == 0) return NotFound(name);
    google::longrunning::Operation operation;
    operation.set_name(name + "/operations/1");
    operation.set_done(true);
    operation.mutable_metadata()->PackFrom(
        google::cloud::aiplatform::v1::DeleteOperationMetadata());
    operation.mutable_response()->PackFrom(google::protobuf::Empty());
    operations_[operation.name()] = operation;
    return operation;
  }

  Result<google::longrunning::Operation> GetOperation(const std::string& name) override {
    MutexLock lock(mutex_);
    const auto it = operations_.find(name);
    if (it == operations_.end()) return NotFound(name);
    return it->second;
  }

  Result<v1::JobView> View(const std::string& name) override {
    v1::JobView view;
    view.set_name(name);
    view.set_waiting_reason("needs 8 cores, 2 are free");
    for (const char* task : {"workerpool0-0", "workerpool1-0", "workerpool3-0"}) {
      view.add_replicas()->set_task_name(task);
    }
    return view;
  }

  Result<control::LogSources> Logs(const std::string& name) override {
    MutexLock lock(mutex_);
    const auto it = logs_.find(name);
    if (it == logs_.end()) return NotFound(name);
    return it->second;
  }

  logs::ReadEvents EventReader(const std::string&) override {
    return [this](int64_t after,
                  int limit) -> Result<std::vector<std::pair<int64_t, logs::LogEntry>>> {
      MutexLock lock(mutex_);
      std::vector<std::pair<int64_t, logs::LogEntry>> found;
      for (auto i = after; i < static_cast<int64_t>(events_.size()); ++i) {
        if (static_cast<int>(found.size()) == limit) break;
        found.emplace_back(i + 1, events_[static_cast<size_t>(i)]);
      }
      return found;
    };
  }

  Result<v1::ReportResponse> Report(const v1::ReportRequest& report) override {
    if (report.token() != "secret") return Fail(Code::kUnauthenticated, "wrong token");
    v1::ReportResponse response;
    response.set_stop(report.has_alive());
    return response;
  }

  Counts counts() override { return {.jobs_created = 3, .jobs_waiting = 1, .replicas_running = 4}; }

  // For tests.
  std::vector<CustomJob> received() {
    MutexLock lock(mutex_);
    return received_;
  }
  control::ListJobsRequest last_list() {
    MutexLock lock(mutex_);
    return last_list_;
  }
  void AddJob(const std::string& name) {
    MutexLock lock(mutex_);
    jobs_[name].set_name(name);
  }
  void AddOperation(const std::string& name) {
    MutexLock lock(mutex_);
    operations_[name].set_name(name);
  }
  void SetLogs(const std::string& name, control::LogSources logs) {
    MutexLock lock(mutex_);
    logs_[name] = std::move(logs);
  }
  void DropLogs(const std::string& name) {
    MutexLock lock(mutex_);
    logs_.erase(name);
  }
  void AddEvent(logs::LogEntry entry) {
    MutexLock lock(mutex_);
    entry.task_name = "service";
    events_.push_back(std::move(entry));
  }
  std::function<void()> before_create;  // set before serving

 private:
  static std::unexpected<Error> NotFound(const std::string& name) {
    return Fail(Code::kNotFound, "{} was not found", name);
  }

  Mutex mutex_;
  std::map<std::string, CustomJob> jobs_ GUARDED_BY(mutex_);
  std::map<std::string, google::longrunning::Operation> operations_ GUARDED_BY(mutex_);
  std::map<std::string, control::LogSources> logs_ GUARDED_BY(mutex_);
  std::vector<logs::LogEntry> events_ GUARDED_BY(mutex_);
  std::vector<CustomJob> received_ GUARDED_BY(mutex_);
  control::ListJobsRequest last_list_ GUARDED_BY(mutex_);
  int64_t last_id_ GUARDED_BY(mutex_) = 1000;
};

}  // namespace muster::server
