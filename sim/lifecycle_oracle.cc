#include "sim/lifecycle_oracle.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

namespace muster::sim {
namespace {

using job::AttemptState;
using job::AttemptStatus;
using job::ExitKind;
using job::JobState;
using job::Lifecycle;
using job::ReplicaId;

constexpr ReplicaId kPrimary{.pool = 0, .index = 0};

bool IsCurrent(const Lifecycle& job, ReplicaId replica, int attempt) {
  const auto found = job.replicas().find(replica);
  return found != job.replicas().end() && found->second.attempt == attempt &&
         found->second.state != AttemptState::kEnded;
}

bool AnyIs(const Lifecycle& job, AttemptState state) {
  return std::ranges::any_of(job.replicas(),
                             [&](const auto& entry) { return entry.second.state == state; });
}

size_t CountStarts(const job::Reaction& reaction) {
  return static_cast<size_t>(std::ranges::count_if(reaction.actions, [](const auto& action) {
    return std::holds_alternative<job::action::StartReplica>(action);
  }));
}

bool Releases(const job::Reaction& reaction) {
  return std::ranges::any_of(reaction.actions, [](const auto& action) {
    return std::holds_alternative<job::action::ReleaseGang>(action);
  });
}

bool Says(const job::Reaction& reaction, std::string_view text) {
  return std::ranges::any_of(reaction.lines, [&](const auto& line) { return line.text == text; });
}

bool IsDecision(Effect effect) {
  return effect == Effect::kSucceed || effect == Effect::kFail || effect == Effect::kCancel;
}

}  // namespace

std::string_view EffectName(Effect effect) {
  switch (effect) {
    case Effect::kNone:
      return "none";
    case Effect::kAdmit:
      return "admit";
    case Effect::kSucceed:
      return "succeed";
    case Effect::kFail:
      return "fail";
    case Effect::kCancel:
      return "cancel";
    case Effect::kRestartReplica:
      return "restart the replica";
    case Effect::kRestartJob:
      return "restart the job";
  }
  std::abort();
}

Effect Oracle::Expect(const Lifecycle& job, const job::Event& event, Time now) const {
  if (decided_) return Effect::kNone;
  if (std::holds_alternative<job::event::Admitted>(event)) {
    return job.state() == JobState::kQueued ? Effect::kAdmit : Effect::kNone;
  }
  if (const auto* exited = std::get_if<job::event::ReplicaExited>(&event)) {
    return ExpectExit(job, *exited);
  }
  if (const auto* lost = std::get_if<job::event::HostLost>(&event)) return ExpectLoss(job, *lost);
  if (std::holds_alternative<job::event::CancelRequested>(event)) return Effect::kCancel;
  if (std::holds_alternative<job::event::CannotRun>(event)) return Effect::kFail;
  if (std::holds_alternative<job::event::Tick>(event)) {
    return job.NextDeadline() && now >= *job.NextDeadline() ? Effect::kFail : Effect::kNone;
  }
  return Effect::kNone;
}

Effect Oracle::ExpectExit(const Lifecycle& job, const job::event::ReplicaExited& event) const {
  if (!IsCurrent(job, event.replica, event.attempt)) return Effect::kNone;
  const bool by_itself = event.cause.kind == ExitKind::kExited;
  if (by_itself && event.cause.status == 0) {
    return event.replica == kPrimary ? Effect::kSucceed : Effect::kNone;
  }
  if (restarting_) return Effect::kNone;
  const int status = event.cause.status;
  const bool crash = by_itself && (status == 6 || status == 11 || status == 134 || status == 139);
  return crash && !rules_.disable_retries && job_restarts_ < 3 ? Effect::kRestartJob
                                                               : Effect::kFail;
}

Effect Oracle::ExpectLoss(const Lifecycle& job, const job::event::HostLost& event) const {
  if (!IsCurrent(job, event.replica, event.attempt) || restarting_) return Effect::kNone;
  if (rules_.disable_retries) return Effect::kFail;
  const auto losses = losses_.find(event.replica);
  if (!rules_.restart_job_on_worker_restart && (losses == losses_.end() || losses->second < 5)) {
    return Effect::kRestartReplica;
  }
  return job_restarts_ < 3 ? Effect::kRestartJob : Effect::kFail;
}

std::optional<std::string> Oracle::Check(const Lifecycle& before, const Lifecycle& after,
                                         const job::Event& event, Effect expected,
                                         const job::Reaction& reaction) {
  if (auto wrong = CheckAlways(before, after, reaction)) return wrong;
  const bool was_decided = before.ending() || IsTerminal(before.state());
  const bool is_decided = after.ending() || IsTerminal(after.state());
  if (is_decided != (was_decided || IsDecision(expected))) {
    return fmt::format("expected to {}, but the outcome is {}decided", EffectName(expected),
                       is_decided ? "" : "not ");
  }
  switch (expected) {
    case Effect::kAdmit:
      if (CountStarts(reaction) != after.replicas().size()) return "not everything was started";
      if (after.state() != JobState::kPending) return "admitted, but not PENDING";
      break;
    case Effect::kRestartReplica: {
      const ReplicaId replica = std::get<job::event::HostLost>(event).replica;
      if (CountStarts(reaction) != 1 || reaction.actions.size() != 1) return "no lone restart";
      if (after.replicas().at(replica).attempt != before.replicas().at(replica).attempt + 1) {
        return "the restarted replica has no next attempt";
      }
      break;
    }
    case Effect::kRestartJob: {
      if (after.state() != JobState::kPending) return "restarting, but not PENDING";
      const size_t starts = AnyIs(after, AttemptState::kStopping) ? 0 : after.replicas().size();
      if (CountStarts(reaction) != starts) return "starts before all is stopped, or not after";
      break;
    }
    case Effect::kNone: {
      const bool restart_goes_on = restarting_ && !AnyIs(after, AttemptState::kStopping);
      if (CountStarts(reaction) != (restart_goes_on ? after.replicas().size() : 0)) {
        return "unexpected starts";
      }
      break;
    }
    case Effect::kCancel:
      if (after.state() != JobState::kCancelling && after.state() != JobState::kCancelled) {
        return "cancelled, but not CANCELLING";
      }
      [[fallthrough]];
    case Effect::kSucceed:
    case Effect::kFail:
      if (CountStarts(reaction) != 0) return "a decided job starts something";
      break;
  }
  return std::nullopt;
}

std::optional<std::string> Oracle::CheckAlways(const Lifecycle& before, const Lifecycle& after,
                                               const job::Reaction& reaction) const {
  if (IsTerminal(before.state())) {
    if (after.Save() != before.Save()) return "a terminal state changed";
    if (!reaction.actions.empty() || !reaction.lines.empty()) return "a terminal job reacted";
    return std::nullopt;
  }
  const bool ended = IsTerminal(after.state());
  if (ended != Releases(reaction)) return "the gang is released if and only if the job ends";
  if (ended) {
    for (const auto& [replica, status] : after.replicas()) {
      if (status.state != AttemptState::kEnded) return "the job ended before its replicas";
    }
    if (!after.end_time() || (after.start_time() && *after.end_time() < *after.start_time())) {
      return "bad end time";
    }
    if (after.error().has_value() != (after.state() != JobState::kSucceeded)) return "bad error";
    if (after.state() == JobState::kSucceeded && !after.start_time()) return "no start time";
    if (after.NextDeadline()) return "an ended job has a deadline";
  } else if (after.end_time() || after.error()) {
    return "end time or error before the end";
  }
  const bool becomes_running = Says(reaction, "Job is running.");
  const auto were_starting = std::ranges::count_if(before.replicas(), [](const auto& entry) {
    return entry.second.state == AttemptState::kStarting;
  });
  if (becomes_running && (before.state() != JobState::kPending || were_starting > 1)) {
    return "RUNNING before all were up";
  }
  if (after.state() == JobState::kRunning && before.state() != JobState::kRunning &&
      !becomes_running) {
    return "RUNNING without a word";
  }
  if (first_running_ && after.start_time() != first_running_) return "the start time changed";
  if (first_running_ && !ended && !after.ending() &&
      after.NextDeadline() != *first_running_ + rules_.timeout) {
    return "the timeout does not count from the first RUNNING";
  }
  for (const auto& [replica, status] : after.replicas()) {
    if (status.attempt < before.replicas().at(replica).attempt) return "an attempt came back";
  }
  return std::nullopt;
}

void Oracle::Commit(const Lifecycle& after, const job::Event& event, Effect effect) {
  if (effect == Effect::kSucceed) decided_ = JobState::kSucceeded;
  if (effect == Effect::kFail) decided_ = JobState::kFailed;
  if (effect == Effect::kCancel) decided_ = JobState::kCancelled;
  if (effect == Effect::kRestartReplica) ++losses_[std::get<job::event::HostLost>(event).replica];
  if (effect == Effect::kRestartJob) {
    ++job_restarts_;
    restarting_ = true;
  }
  if (decided_ || !AnyIs(after, AttemptState::kStopping)) restarting_ = false;
  if (!first_running_) first_running_ = after.start_time();
}

int Oracle::most_replica_restarts() const {
  int most = 0;
  for (const auto& [replica, losses] : losses_) most = std::max(most, losses);
  return most;
}

}  // namespace muster::sim
