#include "control/job_run.h"

#include <google/protobuf/util/time_util.h>

#include <boost/asio/post.hpp>
#include <filesystem>

#include "base/check.h"
#include "base/file.h"
#include "base/log.h"
#include "control/api_types.h"
#include "control/grant_json.h"

namespace muster::control {
namespace {

namespace aip = google::cloud::aiplatform::v1;
using google::protobuf::util::TimeUtil;

constexpr auto kSaveRetryInterval = std::chrono::seconds(1);

job::ExitKind KindOf(muster::v1::Exited::Cause cause) {
  switch (cause) {
    case muster::v1::Exited::OUT_OF_MEMORY:
      return job::ExitKind::kOutOfMemory;
    case muster::v1::Exited::NEVER_STARTED:
      return job::ExitKind::kNeverStarted;
    case muster::v1::Exited::STOPPED:
      return job::ExitKind::kStopped;
    default:
      return job::ExitKind::kExited;
  }
}

std::vector<std::string> SplitName(const std::string& resource_name) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= resource_name.size();) {
    const size_t slash = std::min(resource_name.find('/', start), resource_name.size());
    parts.push_back(resource_name.substr(start, slash - start));
    start = slash + 1;
  }
  return parts;
}

// FNV-1a, folded to twelve digits: what Google's project numbers look like.
std::string ProjectNumber(const std::string& project) {
  if (!project.empty() && project.find_first_not_of("0123456789") == std::string::npos) {
    return project;
  }
  uint64_t hash = 14695981039346656037ull;
  for (const unsigned char byte : project) hash = (hash ^ byte) * 1099511628211ull;
  return std::to_string(100'000'000'000 + hash % 900'000'000'000);
}

}  // namespace

job::JobIdentity IdentityOf(const std::string& resource_name) {
  const std::vector<std::string> parts = SplitName(resource_name);
  MUSTER_CHECK(parts.size() == 6);
  return {.project = parts[1],
          .project_number = ProjectNumber(parts[1]),
          .region = parts[3],
          .job_id = parts[5]};
}

store::Resource ToResource(const aip::CustomJob& job) {
  store::Resource resource;
  resource.kind = "customJobs";
  resource.name = job.name();
  const std::vector<std::string> parts = SplitName(job.name());
  MUSTER_CHECK(parts.size() == 6);
  resource.parent = fmt::format("projects/{}/locations/{}", parts[1], parts[3]);
  resource.display_name = job.display_name();
  resource.state = job.state();
  resource.create_time = FromMicros(TimeUtil::TimestampToMicroseconds(job.create_time()));
  resource.update_time = FromMicros(TimeUtil::TimestampToMicroseconds(job.update_time()));
  for (const auto& [key, value] : job.labels()) resource.labels.emplace_back(key, value);
  resource.body = job.SerializeAsString();
  return resource;
}

JobRun::JobRun(const RunContext& context, aip::CustomJob job, store::JobRecord record,
               job::JobPlan plan, job::Lifecycle lifecycle,
               std::function<void(JobRun&)> on_finished)
    : context_(context),
      job_(std::move(job)),
      record_(std::move(record)),
      plan_(std::move(plan)),
      identity_(IdentityOf(job_.name())),
      lifecycle_(std::move(lifecycle)),
      on_finished_(std::move(on_finished)),
      deadline_timer_(context.loop),
      retry_timer_(context.loop) {}

void JobRun::Post(std::function<void()> work) {
  boost::asio::post(context_.loop, [alive = std::weak_ptr<bool>(alive_), work = std::move(work)] {
    if (alive.lock()) work();
  });
}

engine::Gang JobRun::GangOf() const {
  engine::Gang gang{.job_uid = record_.job_uid, .members = {}, .name = job_.name()};
  for (const job::ReplicaId replica : plan_.Replicas()) {
    const job::PoolPlan& pool = *plan_.FindPool(replica.pool);
    gang.members.push_back({.replica = replica,
                            .vcpus = pool.machine.vcpus,
                            .memory_mb = pool.machine.memory_mb,
                            .accelerator_count = pool.accelerator_count,
                            .accelerator_type = pool.accelerator_type});
  }
  return gang;
}

void JobRun::Begin() {
  if (Status runnable = CheckRunnable(plan_, context_.images, context_.buckets); !runnable) {
    // The user's to mend, whichever way it was found: contract §4 wants code 3.
    Handle(job::event::CannotRun{{Code::kInvalidArgument, runnable.error().message}});
    return;
  }
  if (Status queued = context_.engine.Request(GangOf()); !queued) {
    Handle(job::event::CannotRun{queued.error()});
    return;
  }
  ArmDeadline();
  // The engine answers from the loop: whoever still waits after that is told why.
  Post([this] {
    if (lifecycle_.state() != job::JobState::kQueued) return;
    const std::string reason = context_.engine.WhyWaiting(uid());
    if (reason.empty()) return;
    AddLine(false, fmt::format("Waiting for resources: {}.", reason));
    SaveSoon();
  });
}

void JobRun::Admit(const engine::Grant& grant) {
  grant_ = grant;
  record_.grant = GrantToJson(grant);
  for (const std::string& warning : grant.warnings) AddLine(false, "Warning: " + warning);
  Handle(job::event::Admitted{});
}

void JobRun::Cancel() { Handle(job::event::CancelRequested{}); }

Result<muster::v1::ReportResponse> JobRun::Report(const muster::v1::ReportRequest& report) {
  const AttemptId id{{report.id().pool(), report.id().index()}, report.id().attempt()};
  Attempt* attempt = Find(id);
  if (attempt == nullptr) {
    return Fail(Code::kNotFound, "job {} has no attempt {} of {}", uid(), id.second,
                job::ReplicaName(id.first));
  }
  if (attempt->launch.token().empty() || report.token() != attempt->launch.token()) {
    return Fail(Code::kUnauthenticated, "the report's token is not that of {} of job {}",
                job::ReplicaName(id.first), uid());
  }
  if (report.has_started()) {
    attempt->view.set_process_id(report.started().process_id());
    attempt->started = report.started().time();
  }
  const bool starting = attempt->view.state() == "STARTING";
  if (starting && (report.has_started() || report.has_alive())) {
    Handle(job::event::ReplicaStarted{id.first, id.second});
  }
  // An exit counts once its agent is gone too (AgentEnded): then nothing of the replica is left.
  // It is kept for the case that the agent's disk was too full for report.json.
  if (report.has_exited()) attempt->exited = report.exited();
  muster::v1::ReportResponse response;
  attempt = Find(id);
  response.set_stop(attempt != nullptr && attempt->view.state() == "STOPPING");
  return response;
}

std::optional<muster::v1::Exited> JobRun::ReportOf(const Attempt& attempt) const {
  if (attempt.exited) return attempt.exited;
  auto report = context_.engine.ReadReport(attempt.launch);
  return report ? std::optional(std::move(*report)) : std::nullopt;
}

job::ExitCause JobRun::CauseOf(const Attempt& attempt) const {
  const auto report = ReportOf(attempt);
  if (!report) {
    return {
        .kind = job::ExitKind::kAgentLost,
        .status = 137,
        .detail = fmt::format(
            "Its agent ended without a report; its last words may be in {}",
            (std::filesystem::path(attempt.launch.attempt_directory()) / "agent.log").string())};
  }
  return {.kind = KindOf(report->cause()), .status = report->status(), .detail = report->detail()};
}

void JobRun::AgentEnded(const engine::AttemptKey& key) {
  const AttemptId id{key.replica, key.attempt};
  Attempt* attempt = Find(id);
  if (attempt == nullptr || attempt->view.state() == "ENDED") return;
  if (const auto report = ReportOf(*attempt); report) {
    if (report->has_start_time()) *attempt->view.mutable_start_time() = report->start_time();
    if (report->log_dropped_bytes() > 0) {
      AddLine(true, fmt::format("{}: {} bytes of its output could not be written and are lost: the "
                                "disk was full.",
                                job::ReplicaName(id.first), report->log_dropped_bytes()));
    }
  }
  Handle(job::event::ReplicaExited{id.first, id.second, CauseOf(*attempt)});
}

JobRun::Attempt* JobRun::Find(const AttemptId& id) {
  const auto it = attempts_.find(id);
  return it == attempts_.end() ? nullptr : &it->second;
}

void JobRun::Handle(const job::Event& event) {
  if (finished_) return;
  const Time now = context_.clock.Now();
  const job::JobState before = lifecycle_.state();
  NoteInViews(event, now);
  job::Reaction reaction = lifecycle_.Handle(event, now);
  for (job::ServiceLine& line : reaction.lines) AddLine(line.is_error, std::move(line.text));
  Prepare(reaction.actions);
  if (lifecycle_.state() != before || !unsaved_actions_.empty()) {
    Save();
  } else {
    SaveSoon();
  }
}

// Keeps the attempts' views in step; events about ended attempts change nothing.
void JobRun::NoteInViews(const job::Event& event, Time now) {
  if (const auto* started = std::get_if<job::event::ReplicaStarted>(&event)) {
    Attempt* attempt = Find({started->replica, started->attempt});
    if (attempt == nullptr || attempt->view.state() != "STARTING") return;
    attempt->view.set_state("RUNNING");
    *attempt->view.mutable_start_time() = attempt->started.value_or(ToTimestamp(now));
    attempt->dirty = true;
  } else if (const auto* exited = std::get_if<job::event::ReplicaExited>(&event)) {
    Attempt* attempt = Find({exited->replica, exited->attempt});
    if (attempt == nullptr || attempt->view.state() == "ENDED") return;
    attempt->view.set_state("ENDED");
    attempt->view.set_exit_status(exited->cause.status);
    attempt->view.set_cause(std::string(job::ExitKindName(exited->cause.kind)));
    attempt->view.set_detail(exited->cause.detail);
    *attempt->view.mutable_end_time() = ToTimestamp(now);
    attempt->dirty = true;
  } else if (const auto* lost = std::get_if<job::event::HostLost>(&event)) {
    Attempt* attempt = Find({lost->replica, lost->attempt});
    if (attempt == nullptr || attempt->view.state() == "ENDED") return;
    attempt->view.set_state("ENDED");
    attempt->view.set_cause("HOST_LOST");
    *attempt->view.mutable_end_time() = ToTimestamp(now);
    attempt->dirty = true;
  }
}

// Makes ready what the actions need, so that one save covers it all.
void JobRun::Prepare(const std::vector<job::Action>& actions) {
  for (const job::Action& action : actions) {
    if (std::holds_alternative<job::action::ReleaseGang>(action)) {
      ReleaseGang();
      continue;
    }
    if (const auto* start = std::get_if<job::action::StartReplica>(&action)) {
      if (Status prepared = PrepareStart(*start); !prepared) {
        Post([this, start = *start, error = prepared.error()] {
          Handle(job::event::ReplicaExited{
              start.replica,
              start.attempt,
              {.kind = job::ExitKind::kNeverStarted, .status = 127, .detail = error.message}});
        });
        continue;
      }
    } else if (const auto* stop = std::get_if<job::action::StopReplica>(&action)) {
      if (Attempt* attempt = Find({stop->replica, stop->attempt}); attempt != nullptr) {
        attempt->view.set_state("STOPPING");
        attempt->dirty = true;
      }
    }
    unsaved_actions_.push_back(action);
  }
}

Status JobRun::PrepareStart(const job::action::StartReplica& start) {
  const AttemptId id{start.replica, start.attempt};
  Attempt& attempt = attempts_[id];
  attempt.dirty = true;
  attempt.view.set_attempt(start.attempt);
  attempt.view.set_state("STARTING");
  MUSTER_ASSIGN(attempt.launch, MakeLaunch(plan_, identity_, grant_, KeyOf(id), context_.images,
                                           context_.buckets, context_.site));
  attempt.launch.set_token(RandomHex(32));
  attempt.launch.set_boot_id(context_.site.boot_id);
  return {};
}

void JobRun::ReleaseGang() {
  context_.engine.Release(uid());
  for (const job::PoolPlan& pool : plan_.pools) {
    const auto environment =
        JobDirectory(context_.site, uid()) / fmt::format("python-pool{}", pool.pool);
    if (Status removed = RemoveTree(environment); !removed) {
      LogWarning("job {}: {}", uid(), removed.error().message);
    }
  }
}

void JobRun::AddLine(bool is_error, std::string text) {
  unsaved_lines_.push_back({.job_uid = uid(),
                            .sequence = 0,
                            .time = context_.clock.Now(),
                            .is_error = is_error,
                            .text = std::move(text)});
}

// The lifecycle as the API shows it.
void JobRun::Publish() {
  const auto state = static_cast<aip::JobState>(static_cast<int>(lifecycle_.state()));
  *job_.mutable_update_time() = ToTimestamp(context_.clock.Now());
  job_.set_state(state);
  if (lifecycle_.start_time()) *job_.mutable_start_time() = ToTimestamp(*lifecycle_.start_time());
  if (lifecycle_.end_time()) *job_.mutable_end_time() = ToTimestamp(*lifecycle_.end_time());
  if (lifecycle_.error()) {
    job_.mutable_error()->set_code(static_cast<int>(lifecycle_.error()->code));
    job_.mutable_error()->set_message(lifecycle_.error()->message);
  }
}

void JobRun::SaveSoon() {
  dirty_ = true;
  if (save_scheduled_) return;
  save_scheduled_ = true;
  Post([this] {
    save_scheduled_ = false;
    if (dirty_) Save();
  });
}

void JobRun::Save() {
  dirty_ = true;
  Publish();
  record_.lifecycle = lifecycle_.Save();
  store::JobChange change{
      .resource = ToResource(job_), .job = record_, .attempts = {}, .events = unsaved_lines_};
  for (const auto& [id, attempt] : attempts_) {
    if (!attempt.dirty) continue;
    const bool ended = attempt.view.state() == "ENDED";
    change.attempts.push_back({.job_uid = uid(),
                               .pool = id.first.pool,
                               .index = id.first.index,
                               .attempt = id.second,
                               .view = attempt.view.SerializeAsString(),
                               .launch = ended ? "" : attempt.launch.SerializeAsString()});
  }
  if (Status saved = context_.store.SaveJob(change); !saved) {
    LogError("job {}: its state could not be saved, trying again: {}", uid(),
             saved.error().message);
    // Stopping need not wait. It is repeated with the save, in case a start comes before it.
    for (const job::Action& action : unsaved_actions_) {
      const auto* stop = std::get_if<job::action::StopReplica>(&action);
      if (stop != nullptr) context_.engine.Stop(KeyOf({stop->replica, stop->attempt}));
    }
    retry_timer_.expires_after(kSaveRetryInterval);
    retry_timer_.async_wait(
        [this, alive = std::weak_ptr<bool>(alive_)](const boost::system::error_code& error) {
          if (!error && alive.lock()) Save();
        });
    return;
  }
  dirty_ = false;
  unsaved_lines_.clear();
  for (auto& [id, attempt] : attempts_) attempt.dirty = false;
  CarryOut(std::exchange(unsaved_actions_, {}));
  ArmDeadline();
  for (auto& done : std::exchange(save_waiters_, {})) done();
  if (job::IsTerminal(lifecycle_.state()) && !finished_) {
    finished_ = true;
    Post([this] { on_finished_(*this); });
  }
}

void JobRun::CarryOut(const std::vector<job::Action>& actions) {
  for (const job::Action& action : actions) {
    if (const auto* start = std::get_if<job::action::StartReplica>(&action)) {
      const AttemptId id{start->replica, start->attempt};
      Status started = context_.engine.Start(Find(id)->launch);
      if (started) continue;
      Post([this, id, error = started.error()] {
        Handle(job::event::ReplicaExited{
            id.first,
            id.second,
            {.kind = job::ExitKind::kNeverStarted, .status = 127, .detail = error.message}});
      });
    } else if (const auto* stop = std::get_if<job::action::StopReplica>(&action)) {
      context_.engine.Stop(KeyOf({stop->replica, stop->attempt}));
    }
  }
}

void JobRun::WhenSaved(std::function<void()> done) {
  if (!dirty_) {
    done();
    return;
  }
  save_waiters_.push_back(std::move(done));
}

void JobRun::ArmDeadline() {
  const auto deadline = lifecycle_.NextDeadline();
  if (!deadline || job::IsTerminal(lifecycle_.state())) {
    deadline_timer_.cancel();
    return;
  }
  if (deadline_timer_.expiry() == *deadline) return;
  deadline_timer_.expires_at(*deadline);
  deadline_timer_.async_wait(
      [this, alive = std::weak_ptr<bool>(alive_)](const boost::system::error_code& error) {
        if (!error && alive.lock()) Handle(job::event::Tick{});
      });
}

Status JobRun::Resume(const std::vector<store::AttemptRecord>& attempts) {
  if (lifecycle_.state() == job::JobState::kQueued && record_.grant.empty()) {
    Begin();
    return {};
  }
  if (!record_.grant.empty()) {
    MUSTER_ASSIGN(grant_, GrantFromJson(record_.grant));
    context_.engine.Adopt(GangOf(), grant_);
  }
  for (const store::AttemptRecord& stored : attempts) {
    Attempt& attempt = attempts_[{{stored.pool, stored.index}, stored.attempt}];
    if (!attempt.view.ParseFromString(stored.view) ||
        !attempt.launch.ParseFromString(stored.launch)) {
      return Fail(Code::kDataLoss, "job {}: its stored attempts cannot be read", uid());
    }
  }
  AddLine(false, "musterd was restarted; the job goes on.");
  SaveSoon();
  ArmDeadline();
  for (auto& [id, attempt] : attempts_) {
    if (attempt.view.state() != "ENDED") ResumeAttempt(id, attempt);
  }
  return {};
}

void JobRun::ResumeAttempt(const AttemptId& id, Attempt& attempt) {
  if (attempt.launch.attempt_directory().empty()) {  // it could not even be prepared
    Post([this, id] { AgentEnded(KeyOf(id)); });
    return;
  }
  switch (context_.engine.AdoptAttempt(attempt.launch)) {
    case engine::AttemptFate::kNeverLaunched:
      if (attempt.view.state() == "STARTING") {
        CarryOut({job::action::StartReplica{id.first, id.second}});
      } else {
        Post([this, id] { AgentEnded(KeyOf(id)); });
      }
      break;
    case engine::AttemptFate::kRunning:
      if (attempt.view.state() == "STOPPING") context_.engine.Stop(KeyOf(id));
      break;
    case engine::AttemptFate::kReported:
    case engine::AttemptFate::kAgentLost:
      Post([this, id] { AgentEnded(KeyOf(id)); });
      break;
    case engine::AttemptFate::kHostLost:
      Post([this, id] {
        Handle(job::event::HostLost{id.first, id.second, "this machine (it was restarted)"});
      });
      break;
  }
}

}  // namespace muster::control
