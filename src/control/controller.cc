#include "control/controller.h"

#include <google/cloud/aiplatform/v1/operation.pb.h>
#include <google/protobuf/empty.pb.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <future>

#include "base/check.h"
#include "base/file.h"
#include "base/log.h"
#include "control/api_types.h"
#include "job/validate.h"

namespace muster::control {
namespace {

namespace aip = google::cloud::aiplatform::v1;

constexpr auto kLoopDeadline = std::chrono::seconds(30);

// What Vertex AI fills in where the user left it out.
void FillInDefaults(aip::CustomJobSpec& spec) {
  for (aip::WorkerPoolSpec& pool : *spec.mutable_worker_pool_specs()) {
    if (pool.task_case() == aip::WorkerPoolSpec::TASK_NOT_SET) continue;
    aip::DiskSpec& disk = *pool.mutable_disk_spec();
    if (disk.boot_disk_type().empty()) disk.set_boot_disk_type("pd-ssd");
    if (disk.boot_disk_size_gb() == 0) disk.set_boot_disk_size_gb(100);
  }
}

}  // namespace

Controller::Controller(boost::asio::io_context& loop, store::Store& store,
                       const bucket::BucketDirectories& buckets, const Clock& clock,
                       Options options)
    : loop_(loop), store_(store), buckets_(buckets), clock_(clock), options_(std::move(options)) {}

Controller::~Controller() = default;

void Controller::Attach(engine::Engine& engine) {
  engine_ = &engine;
  context_.emplace(RunContext{.loop = loop_,
                              .store = store_,
                              .engine = engine,
                              .clock = clock_,
                              .images = options_.images,
                              .buckets = buckets_,
                              .site = options_.site});
}

std::unique_ptr<JobRun> Controller::MakeRun(aip::CustomJob job, store::JobRecord record,
                                            job::JobPlan plan, job::Lifecycle lifecycle) {
  MUSTER_CHECK(context_.has_value());
  return std::make_unique<JobRun>(*context_, std::move(job), std::move(record), std::move(plan),
                                  std::move(lifecycle), [this](JobRun& run) { Finished(run); });
}

Result<job::JobPlan> Controller::PlanOf(const aip::CustomJob& job) const {
  job::MachineCatalog machines = options_.machines;
  for (const aip::WorkerPoolSpec& pool : job.job_spec().worker_pool_specs()) {
    const std::string& type = pool.machine_spec().machine_type();
    if (machines.Find(type) == nullptr) machines.Add({.name = type});
  }
  return job::MakePlan(job.job_spec(), machines);
}

// Finishes what a crash in the middle of Delete left.
void Controller::RemoveDeletedJobs() const {
  std::error_code error;
  const auto jobs = options_.site.data_directory / "jobs";
  for (std::filesystem::directory_iterator it(jobs, error), end; !error && it != end;
       it.increment(error)) {
    // Every job has at least the event of its creation.
    const auto events = store_.Events(it->path().filename(), 0, 1);
    if (!events || !events->empty()) continue;
    if (Status removed = RemoveTree(it->path()); !removed)
      LogWarning("{}", removed.error().message);
  }
}

Result<int> Controller::Recover() {
  RemoveDeletedJobs();
  MUSTER_ASSIGN(const std::vector<store::JobRecord> active, store_.ActiveJobs());
  int resumed = 0;
  for (const store::JobRecord& record : active) {
    if (Status status = Resume(record); status) {
      ++resumed;
    } else {
      LogError("{} cannot be taken up again: {}", record.resource_name, status.error().message);
      if (Status given_up = GiveUp(record, status.error()); !given_up) {
        LogError("{}: {}", record.resource_name, given_up.error().message);
      }
    }
  }
  return resumed;
}

Status Controller::Resume(const store::JobRecord& record) {
  MUSTER_ASSIGN(aip::CustomJob job, ReadJob(record.resource_name));
  MUSTER_ASSIGN(job::JobPlan plan, PlanOf(job));
  MUSTER_ASSIGN(job::Lifecycle lifecycle, job::Lifecycle::Restore(record.lifecycle));
  MUSTER_ASSIGN(const std::vector<store::AttemptRecord> attempts, store_.Attempts(record.job_uid));
  auto run = MakeRun(std::move(job), record, std::move(plan), std::move(lifecycle));
  JobRun& resumed = *run;
  runs_[record.job_uid] = std::move(run);
  Status status = resumed.Resume(attempts);
  if (status) {
    active_jobs_.fetch_add(1);
  } else {
    runs_.erase(record.job_uid);
  }
  return status;
}

Status Controller::GiveUp(const store::JobRecord& record, const Error& reason) {
  const Time now = clock_.Now();
  store::JobChange change{.resource = {}, .job = record, .attempts = {}, .events = {}};
  MUSTER_ASSIGN(const std::vector<store::AttemptRecord> attempts, store_.Attempts(record.job_uid));
  for (store::AttemptRecord attempt : attempts) {
    muster::v1::LaunchSpec launch;
    muster::v1::AttemptView view;
    if (!launch.ParseFromString(attempt.launch) || launch.attempt_directory().empty()) continue;
    if (engine_->AdoptAttempt(launch) == engine::AttemptFate::kRunning) {
      engine_->Stop({record.job_uid, {attempt.pool, attempt.index}, attempt.attempt});
    }
    if (!view.ParseFromString(attempt.view)) continue;
    view.set_state("ENDED");
    view.set_cause("STOPPED");
    *view.mutable_end_time() = ToTimestamp(now);
    attempt.view = view.SerializeAsString();
    attempt.launch.clear();
    change.attempts.push_back(std::move(attempt));
  }
  const std::string message =
      fmt::format("musterd was restarted and could not take the job up again: {}", reason.message);
  change.events.push_back(
      {.job_uid = record.job_uid, .sequence = 0, .time = now, .is_error = true, .text = message});
  MUSTER_ASSIGN(aip::CustomJob job, ReadJob(record.resource_name));
  job.set_state(aip::JOB_STATE_FAILED);
  job.mutable_error()->set_code(static_cast<int>(Code::kInternal));
  job.mutable_error()->set_message(message);
  *job.mutable_update_time() = ToTimestamp(now);
  *job.mutable_end_time() = ToTimestamp(now);
  change.resource = ToResource(job);
  return store_.SaveJob(change);
}

int64_t Controller::NextId() {
  // Microseconds: sorted by time of creation, and unique while this process lives. A clock that was
  // set back shows as ALREADY_EXISTS, and Create tries the next.
  int64_t last = last_id_.load();
  int64_t next = 0;
  do {
    next = std::max(last + 1, ToMicros(clock_.Now()));
  } while (!last_id_.compare_exchange_weak(last, next));
  return next;
}

Result<aip::CustomJob> Controller::Create(const std::string& parent, aip::CustomJob job) {
  const auto violations = job::ValidateCustomJob(job, options_.machines);
  if (!violations.empty()) return std::unexpected(job::ValidationError(violations));
  MUSTER_ASSIGN(const job::JobPlan plan, job::MakePlan(job.job_spec(), options_.machines));
  if (active_jobs_.load() >= kActiveJobsMax) {
    return Fail(Code::kResourceExhausted,
                "{} jobs wait or run already, which is the most: cancel some, or try again later",
                kActiveJobsMax);
  }
  FillInDefaults(*job.mutable_job_spec());

  const Time now = clock_.Now();
  const job::Lifecycle lifecycle(plan, now);
  *job.mutable_create_time() = ToTimestamp(now);
  *job.mutable_update_time() = ToTimestamp(now);
  job.set_state(static_cast<aip::JobState>(static_cast<int>(lifecycle.state())));

  for (;;) {
    store::JobChange change;
    change.job.job_uid = std::to_string(NextId());
    job.set_name(fmt::format("{}/customJobs/{}", parent, change.job.job_uid));
    change.job.resource_name = job.name();
    change.job.lifecycle = lifecycle.Save();
    change.resource = ToResource(job);
    change.events.push_back({.job_uid = change.job.job_uid,
                             .sequence = 0,
                             .time = now,
                             .is_error = false,
                             .text = "Waiting for job to be provisioned."});
    if (Status created = store_.CreateJob(change); !created) {
      if (created.error().code == Code::kAlreadyExists) continue;
      return std::unexpected(created.error());
    }
    totals_.created.fetch_add(1);
    active_jobs_.fetch_add(1);
    boost::asio::post(loop_, [this, job, plan, lifecycle, record = change.job] {
      Take(MakeRun(job, record, plan, lifecycle));
    });
    return job;
  }
}

void Controller::Take(std::unique_ptr<JobRun> run) {
  JobRun& taken = *run;
  runs_[taken.uid()] = std::move(run);
  taken.Begin();
}

void Controller::Finished(JobRun& run) {
  switch (run.lifecycle().state()) {
    case job::JobState::kSucceeded:
      totals_.succeeded.fetch_add(1);
      break;
    case job::JobState::kCancelled:
      totals_.cancelled.fetch_add(1);
      break;
    default:
      totals_.failed.fetch_add(1);
      break;
  }
  active_jobs_.fetch_sub(1);
  runs_.erase(run.uid());
}

JobRun* Controller::Find(const std::string& job_uid) {
  const auto it = runs_.find(job_uid);
  return it == runs_.end() ? nullptr : it->second.get();
}

Result<aip::CustomJob> Controller::ReadJob(const std::string& name) const {
  MUSTER_ASSIGN(const store::Resource resource, store_.GetResource(name));
  aip::CustomJob job;
  if (resource.kind != "customJobs" || !job.ParseFromString(resource.body)) {
    return Fail(Code::kDataLoss, "{} cannot be read from the store", name);
  }
  return job;
}

Result<aip::CustomJob> Controller::Get(const std::string& name) { return ReadJob(name); }

Result<ListJobsResponse> Controller::List(const ListJobsRequest& request) {
  MUSTER_ASSIGN(const store::ListPage page,
                store_.ListResources({.kind = "customJobs",
                                      .parent = request.parent,
                                      .filter = request.filter,
                                      .page_size = request.page_size,
                                      .page_token = request.page_token}));
  ListJobsResponse response;
  response.next_page_token = page.next_page_token;
  for (const store::Resource& resource : page.resources) {
    if (!response.jobs.emplace_back().ParseFromString(resource.body)) {
      return Fail(Code::kDataLoss, "{} cannot be read from the store", resource.name);
    }
  }
  return response;
}

Status Controller::OnLoop(std::function<void(const Done&)> work) {
  auto promise = std::make_shared<std::promise<Status>>();
  auto future = promise->get_future();
  boost::asio::post(loop_, [work = std::move(work), promise] {
    work([promise](Status status) { promise->set_value(std::move(status)); });
  });
  if (future.wait_for(kLoopDeadline) != std::future_status::ready) {
    return Fail(Code::kUnavailable,
                "musterd could not record the change in time: its disk may be full or stuck");
  }
  return future.get();
}

// For a job that nobody drives: fine if it has ended.
Status Controller::CheckEnded(const std::string& name) const {
  MUSTER_ASSIGN(const aip::CustomJob job, ReadJob(name));
  if (HasEnded(job)) return {};
  return Fail(Code::kUnavailable,
              "{} cannot be reached just now: try again; if it stays so, musterd's log says why it "
              "could not be taken up after a restart",
              name);
}

Status Controller::Cancel(const std::string& name) {
  MUSTER_ASSIGN(const store::JobRecord record, store_.GetJob(name));
  return OnLoop([this, name, uid = record.job_uid](const Done& done) {
    JobRun* run = Find(uid);
    if (run == nullptr) return done(CheckEnded(name));
    run->Cancel();
    run->WhenSaved([done] { done({}); });
  });
}

Result<google::longrunning::Operation> Controller::Delete(const std::string& name) {
  MUSTER_ASSIGN(const store::JobRecord record, store_.GetJob(name));
  MUSTER_ASSIGN(const aip::CustomJob job, ReadJob(name));
  if (!HasEnded(job)) {
    return Fail(
        Code::kFailedPrecondition, "The CustomJob \"{}\" is in state {} and cannot be deleted: {}.",
        name, aip::JobState_Name(job.state()),
        job.state() == aip::JOB_STATE_CANCELLING ? "wait until it has ended" : "cancel it first");
  }
  const auto now = ToTimestamp(clock_.Now());
  aip::DeleteOperationMetadata metadata;
  *metadata.mutable_generic_metadata()->mutable_create_time() = now;
  *metadata.mutable_generic_metadata()->mutable_update_time() = now;
  google::longrunning::Operation operation;
  operation.set_name(fmt::format("{}/operations/{}", name, NextId()));
  operation.mutable_metadata()->PackFrom(metadata);
  operation.set_done(true);
  operation.mutable_response()->PackFrom(google::protobuf::Empty());
  MUSTER_TRY(store_.DeleteJob(name, {operation.name(), operation.SerializeAsString()}));
  if (Status removed = RemoveTree(JobDirectory(options_.site, record.job_uid)); !removed) {
    LogWarning("{} is deleted, but not all of its files: {}", name, removed.error().message);
  }
  return operation;
}

Result<google::longrunning::Operation> Controller::GetOperation(const std::string& name) {
  MUSTER_ASSIGN(const store::OperationRecord record, store_.GetOperation(name));
  google::longrunning::Operation operation;
  if (!operation.ParseFromString(record.body)) {
    return Fail(Code::kDataLoss, "{} cannot be read from the store", name);
  }
  return operation;
}

Result<LogSources> Controller::Logs(const std::string& name) {
  MUSTER_ASSIGN(const store::JobRecord record, store_.GetJob(name));
  // The state first: whatever is listed after a terminal state was seen is all there will be.
  MUSTER_ASSIGN(const aip::CustomJob job, ReadJob(name));
  MUSTER_ASSIGN(const std::vector<store::AttemptRecord> attempts, store_.Attempts(record.job_uid));
  LogSources sources{
      .job_uid = record.job_uid, .sources = {}, .ended = false, .state = job.state()};
  sources.ended = HasEnded(job);
  sources.sources.push_back({.key = "service", .task_name = "service", .attempt = 0, .file = {}});
  for (const store::AttemptRecord& attempt : attempts) {
    const engine::AttemptKey key{record.job_uid, {attempt.pool, attempt.index}, attempt.attempt};
    const std::string task = job::ReplicaName(key.replica);
    sources.sources.push_back({.key = fmt::format("{}/{}", task, attempt.attempt),
                               .task_name = task,
                               .attempt = attempt.attempt,
                               .file = AttemptDirectory(options_.site, key) / "log"});
  }
  return sources;
}

logs::ReadEvents Controller::EventReader(const std::string& job_uid) {
  return [this, job_uid](int64_t after,
                         int limit) -> Result<std::vector<std::pair<int64_t, logs::LogEntry>>> {
    MUSTER_ASSIGN(const std::vector<store::EventRecord> events,
                  store_.Events(job_uid, after, limit));
    std::vector<std::pair<int64_t, logs::LogEntry>> entries;
    entries.reserve(events.size());
    for (const store::EventRecord& event : events) {
      entries.emplace_back(event.sequence,
                           logs::LogEntry{.time = event.time,
                                          .severity = event.is_error ? "ERROR" : "INFO",
                                          .task_name = "service",
                                          .attempt = 0,
                                          .message = event.text});
    }
    return entries;
  };
}

Result<muster::v1::ReportResponse> Controller::Report(const muster::v1::ReportRequest& report) {
  auto response = std::make_shared<Result<muster::v1::ReportResponse>>();
  // Answered before it is saved, so that agents get through while a disk is full: a start that is
  // forgotten in a crash shows again in the next sign of life, and an exit is on the agent's disk.
  MUSTER_TRY(OnLoop([this, report, response](const Done& done) {
    JobRun* run = Find(report.id().job_uid());
    if (run == nullptr) {
      return done(Fail(Code::kNotFound, "job {} does not run", report.id().job_uid()));
    }
    *response = run->Report(report);
    done({});
  }));
  return *response;
}

JobControl::Counts Controller::counts() {
  auto counts = std::make_shared<Counts>();
  const Status counted = OnLoop([this, counts](const Done& done) {
    for (const auto& [uid, run] : runs_) {
      const bool waiting = run->lifecycle().state() == job::JobState::kQueued;
      ++(waiting ? counts->jobs_waiting : counts->jobs_active);
      for (const auto& [replica, status] : run->lifecycle().replicas()) {
        counts->replicas_running += status.state != job::AttemptState::kEnded;
      }
    }
    done({});
  });
  if (!counted) counts = std::make_shared<Counts>();  // the loop may still write into the other
  counts->jobs_created = totals_.created.load();
  counts->jobs_succeeded = totals_.succeeded.load();
  counts->jobs_failed = totals_.failed.load();
  counts->jobs_cancelled = totals_.cancelled.load();
  return *counts;
}

void Controller::OnAdmitted(const std::string& job_uid, const engine::Grant& grant) {
  boost::asio::post(loop_, [this, job_uid, grant] {
    if (JobRun* run = Find(job_uid); run != nullptr) run->Admit(grant);
  });
}

void Controller::OnAgentEnded(const engine::AttemptKey& attempt) {
  boost::asio::post(loop_, [this, attempt] {
    if (JobRun* run = Find(attempt.job_uid); run != nullptr) run->AgentEnded(attempt);
  });
}

}  // namespace muster::control
