#include "job/lifecycle.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "base/utf8.h"

namespace muster::job {
namespace {

constexpr ReplicaId kPrimary{.pool = 0, .index = 0};

void Say(Reaction& reaction, std::string text) {
  reaction.lines.push_back({.is_error = false, .text = std::move(text)});
}

void SayError(Reaction& reaction, std::string text) {
  reaction.lines.push_back({.is_error = true, .text = std::move(text)});
}

// By itself with status 0.
bool IsSuccess(const ExitCause& cause) {
  return cause.kind == ExitKind::kExited && cause.status == 0;
}

// SIGABRT and SIGSEGV, or the bare numbers: what crashes once may work the next time.
bool IsRetryable(const ExitCause& cause) {
  return cause.kind == ExitKind::kExited &&
         (cause.status == 6 || cause.status == 134 || cause.status == 11 || cause.status == 139);
}

// Whether the program surely ran, though its start was never reported.
bool ImpliesStart(ExitKind kind) {
  return kind == ExitKind::kExited || kind == ExitKind::kOutOfMemory;
}

std::string HostLostMessage(const event::HostLost& event) {
  const std::string host = event.host.empty() ? "" : fmt::format(": {}", ToValidUtf8(event.host));
  return fmt::format("The host of the replica {} was lost{}.", ReplicaName(event.replica), host);
}

std::string_view SignalName(int signal) {
  switch (signal) {
    case 1:
      return " (SIGHUP)";
    case 2:
      return " (SIGINT)";
    case 3:
      return " (SIGQUIT)";
    case 4:
      return " (SIGILL)";
    case 6:
      return " (SIGABRT)";
    case 7:
      return " (SIGBUS)";
    case 8:
      return " (SIGFPE)";
    case 9:
      return " (SIGKILL)";
    case 11:
      return " (SIGSEGV)";
    case 13:
      return " (SIGPIPE)";
    case 15:
      return " (SIGTERM)";
    default:
      return "";
  }
}

}  // namespace

std::string_view ExitKindName(ExitKind kind) {
  switch (kind) {
    case ExitKind::kExited:
      return "EXITED";
    case ExitKind::kOutOfMemory:
      return "OUT_OF_MEMORY";
    case ExitKind::kNeverStarted:
      return "NEVER_STARTED";
    case ExitKind::kStopped:
      return "STOPPED";
    case ExitKind::kAgentLost:
      return "AGENT_LOST";
  }
  std::abort();
}

std::string ExitMessage(ReplicaId replica, const ExitCause& cause) {
  const std::string detail = ToValidUtf8(cause.detail);
  const std::string exited = fmt::format("The replica {} exited with a non-zero status of {}.",
                                         ReplicaName(replica), cause.status);
  switch (cause.kind) {
    case ExitKind::kExited:
      if (cause.status == 0) {
        return fmt::format("The replica {} exited with status 0.", ReplicaName(replica));
      }
      if (!detail.empty()) {
        return fmt::format("{} Termination reason: Error. \n{}", exited, detail);
      }
      if (const int signal = cause.status - 128; signal > 0 && signal <= 64) {
        return fmt::format("{} Termination reason: Error. \nIt was ended by signal {}{}.", exited,
                           signal, SignalName(signal));
      }
      return exited + " Termination reason: Error.";
    case ExitKind::kOutOfMemory:
      return fmt::format(
          "The replica {} ran out of memory and exited with a non-zero status of {}."
          "{}{}",
          ReplicaName(replica), cause.status, detail.empty() ? "" : " \n", detail);
    case ExitKind::kNeverStarted:
      return fmt::format("The replica {} could not be started: {}", ReplicaName(replica),
                         detail.empty() ? "no reason was reported." : detail);
    case ExitKind::kStopped:
      return fmt::format(
          "The replica {} exited with status {}. Termination reason: it was stopped "
          "from outside, without a request to Muster.",
          ReplicaName(replica), cause.status);
    case ExitKind::kAgentLost:
      return fmt::format(
          "The replica {} exited with a non-zero status of {}. Termination reason: "
          "its agent was killed, and the replica's processes were ended with it.{}{}",
          ReplicaName(replica), cause.status == 0 ? 137 : cause.status, detail.empty() ? "" : " \n",
          detail);
  }
  std::abort();
}

Lifecycle::Lifecycle(const JobPlan& plan, Time created)
    : rules_(plan.scheduling), created_(created) {
  for (const ReplicaId replica : plan.Replicas()) replicas_[replica] = {};
  MUSTER_CHECK(replicas_.contains(kPrimary));
}

Reaction Lifecycle::Handle(const Event& event, Time now) {
  Reaction reaction;
  if (IsTerminal(state_)) return reaction;
  std::visit([&](const auto& alternative) { On(alternative, now, reaction); }, event);
  return reaction;
}

std::vector<Action> Lifecycle::Outstanding() const {
  std::vector<Action> actions;
  if (IsTerminal(state_)) actions.push_back(action::ReleaseGang{});
  for (const auto& [replica, status] : replicas_) {
    if (status.state == AttemptState::kStarting) {
      actions.push_back(action::StartReplica{replica, status.attempt});
    } else if (status.state == AttemptState::kStopping) {
      actions.push_back(action::StopReplica{replica, status.attempt});
    }
  }
  return actions;
}

std::optional<Time> Lifecycle::NextDeadline() const {
  if (IsTerminal(state_) || ending()) return std::nullopt;
  if (state_ == JobState::kQueued) {
    if (!rules_.max_wait || rules_.max_wait->count() == 0) return std::nullopt;
    return created_ + *rules_.max_wait;
  }
  // Until all replicas are up for the first time, setting up has as long as running would have.
  const std::optional<Time> since = start_time_ ? start_time_ : admitted_time_;
  return since ? std::optional(*since + rules_.timeout) : std::nullopt;
}

// ---- events

void Lifecycle::On(const event::Admitted&, Time now, Reaction& reaction) {
  if (state_ != JobState::kQueued) return;
  admitted_time_ = now;
  state_ = JobState::kPending;
  Say(reaction, "Vertex AI is setting up this job.");
  for (auto& [replica, status] : replicas_) Start(replica, status, reaction);
  Say(reaction, "Waiting for training program to start.");
}

void Lifecycle::On(const event::ReplicaStarted& event, Time now, Reaction& reaction) {
  AttemptStatus* status = FindCurrent(event.replica, event.attempt);
  if (status == nullptr || status->state != AttemptState::kStarting) return;
  MarkStarted(event.replica, *status, now, reaction);
}

void Lifecycle::On(const event::ReplicaExited& event, Time now, Reaction& reaction) {
  AttemptStatus* status = FindCurrent(event.replica, event.attempt);
  if (status == nullptr) return;
  // A fast program can end before its start is known.
  if (status->state == AttemptState::kStarting && ImpliesStart(event.cause.kind)) {
    MarkStarted(event.replica, *status, now, reaction);
  }
  status->state = AttemptState::kEnded;
  const bool is_success = IsSuccess(event.cause);
  if (event.replica == kPrimary && is_success && !ending()) {
    if (!start_time_) start_time_ = now;  // others were still starting
    Decide({.state = JobState::kSucceeded, .error = std::nullopt}, now, reaction);
    return;
  }
  if (AdvanceEnding(now, reaction) || is_success) return;

  std::string message = ExitMessage(event.replica, event.cause);
  if (IsRetryable(event.cause) && !rules_.disable_retries) {
    if (MayRestartJob()) {
      SayError(reaction, std::move(message));
      RestartJob(reaction);
      return;
    }
    message += fmt::format(" \nThe job had been restarted {} times before.", job_restarts_);
  }
  Fail({Code::kInvalidArgument, std::move(message)}, now, reaction);
}

void Lifecycle::On(const event::HostLost& event, Time now, Reaction& reaction) {
  AttemptStatus* status = FindCurrent(event.replica, event.attempt);
  if (status == nullptr) return;
  status->state = AttemptState::kEnded;
  if (AdvanceEnding(now, reaction)) return;

  std::string message = HostLostMessage(event);
  if (rules_.disable_retries) {
    Fail({Code::kUnavailable, message + " Retries are disabled."}, now, reaction);
  } else if (!rules_.restart_job_on_worker_restart && status->host_losses < kReplicaRestartsMax) {
    RestartReplica(event, *status, reaction);
  } else if (MayRestartJob()) {
    SayError(reaction, std::move(message));
    RestartJob(reaction);
  } else {
    message += fmt::format(" The replica had been restarted {} times, the job {} times before.",
                           status->host_losses, job_restarts_);
    Fail({Code::kUnavailable, std::move(message)}, now, reaction);
  }
}

void Lifecycle::On(const event::CancelRequested&, Time now, Reaction& reaction) {
  if (ending()) return;
  Say(reaction, "Cancellation of the job was requested.");
  Decide({.state = JobState::kCancelled,
          .error = Error{Code::kCancelled, "CANCELED: the job was cancelled on request."}},
         now, reaction);
}

void Lifecycle::On(const event::CannotRun& event, Time now, Reaction& reaction) {
  if (ending()) return;
  Error error{event.error.code, ToValidUtf8(event.error.message)};
  if (error.code == Code::kOk) error.code = Code::kInternal;
  Fail(std::move(error), now, reaction);
}

void Lifecycle::On(const event::Tick&, Time now, Reaction& reaction) {
  const std::optional<Time> deadline = NextDeadline();
  if (!deadline || now < *deadline) return;
  if (state_ == JobState::kQueued) {
    Fail({Code::kResourceExhausted,
          fmt::format("The resources for this job did not become available within {} s "
                      "(job_spec.scheduling.max_wait_duration).",
                      rules_.max_wait->count())},
         now, reaction);
    return;
  }
  Fail({Code::kDeadlineExceeded,
        fmt::format("The job {} its timeout of {} s (job_spec.scheduling.timeout) and was stopped.",
                    start_time_ ? "ran longer than" : "did not get all its replicas up within",
                    rules_.timeout.count())},
       now, reaction);
}

// ---- what they share

AttemptStatus* Lifecycle::FindCurrent(ReplicaId replica, int attempt) {
  const auto found = replicas_.find(replica);
  if (found == replicas_.end()) return nullptr;
  AttemptStatus& status = found->second;
  return status.attempt == attempt && status.state != AttemptState::kEnded ? &status : nullptr;
}

bool Lifecycle::AllEnded() const {
  return std::ranges::all_of(
      replicas_, [](const auto& entry) { return entry.second.state == AttemptState::kEnded; });
}

bool Lifecycle::AllUp() const {
  return std::ranges::all_of(replicas_, [](const auto& entry) {
    const AttemptState state = entry.second.state;
    return state == AttemptState::kRunning || state == AttemptState::kEnded;
  });
}

bool Lifecycle::MayRestartJob() const {
  return !rules_.disable_retries && job_restarts_ < kJobRestartsMax;
}

void Lifecycle::Start(ReplicaId replica, AttemptStatus& status, Reaction& reaction) {
  MUSTER_CHECK(status.state == AttemptState::kEnded);
  ++status.attempt;
  status.state = AttemptState::kStarting;
  reaction.actions.push_back(action::StartReplica{replica, status.attempt});
}

void Lifecycle::StopAll(Reaction& reaction) {
  for (auto& [replica, status] : replicas_) {
    if (status.state != AttemptState::kStarting && status.state != AttemptState::kRunning) continue;
    status.state = AttemptState::kStopping;
    reaction.actions.push_back(action::StopReplica{replica, status.attempt});
  }
}

void Lifecycle::MarkStarted(ReplicaId replica, AttemptStatus& status, Time now,
                            Reaction& reaction) {
  status.state = AttemptState::kRunning;
  if (state_ == JobState::kRunning) {
    Say(reaction, fmt::format("The replica {} is running again.", ReplicaName(replica)));
  }
  if (state_ != JobState::kPending || !AllUp()) return;
  state_ = JobState::kRunning;
  if (!start_time_) start_time_ = now;
  Say(reaction, "Job is running.");
}

bool Lifecycle::AdvanceEnding(Time now, Reaction& reaction) {
  if (!ending() && !restarting_) return false;
  if (!AllEnded()) return true;
  if (ending()) {
    Finish(now, reaction);
    return true;
  }
  restarting_ = false;
  for (auto& [replica, status] : replicas_) Start(replica, status, reaction);
  Say(reaction, "Waiting for training program to start.");
  return true;
}

void Lifecycle::RestartReplica(const event::HostLost& event, AttemptStatus& status,
                               Reaction& reaction) {
  ++status.host_losses;
  Say(reaction, fmt::format("{} Starting the replica again ({} of at most {} times).",
                            HostLostMessage(event), status.host_losses, kReplicaRestartsMax));
  Start(event.replica, status, reaction);
}

void Lifecycle::RestartJob(Reaction& reaction) {
  ++job_restarts_;
  restarting_ = true;
  state_ = JobState::kPending;
  Say(reaction,
      fmt::format("Restarting the job ({} of at most {} times).", job_restarts_, kJobRestartsMax));
  StopAll(reaction);
  AdvanceEnding({}, reaction);
}

void Lifecycle::Fail(Error error, Time now, Reaction& reaction) {
  SayError(reaction, error.message);
  Decide({.state = JobState::kFailed, .error = std::move(error)}, now, reaction);
}

void Lifecycle::Decide(Outcome outcome, Time now, Reaction& reaction) {
  MUSTER_CHECK(!outcome_);
  const bool was_admitted = state_ != JobState::kQueued;
  if (outcome.state == JobState::kCancelled && was_admitted) state_ = JobState::kCancelling;
  outcome_ = std::move(outcome);
  restarting_ = false;
  if (was_admitted) Say(reaction, "Tearing down training program.");
  StopAll(reaction);
  if (AllEnded()) Finish(now, reaction);
}

void Lifecycle::Finish(Time now, Reaction& reaction) {
  MUSTER_CHECK(AllEnded());
  state_ = outcome_->state;
  error_ = outcome_->error;
  end_time_ = std::max(now, start_time_.value_or(created_));  // clocks may be set back
  reaction.actions.push_back(action::ReleaseGang{});
  if (state_ == JobState::kSucceeded) {
    Say(reaction, "Job completed successfully.");
  } else if (state_ == JobState::kCancelled) {
    Say(reaction, "Job cancelled.");
  } else {
    SayError(reaction, "Job failed.");
  }
}

}  // namespace muster::job
