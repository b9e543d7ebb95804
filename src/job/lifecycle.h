// The life of a job as a state machine (contract §4). Pure: events and the time go in, actions
// come out; the caller persists Save() before it carries the actions out.
//
//   QUEUED ──Admitted──▶ PENDING ──all replicas started──▶ RUNNING
//      │                  │  ▲                                │
//      │                  │  └── restart: stop all, start all ─┤
//      └── Cancel ────────┴───────── Cancel ─▶ CANCELLING ◀───┤
//                                                             ▼
//      ending: outcome decided, replicas are being stopped; then SUCCEEDED | FAILED | CANCELLED
//
// Invariants (sim/ checks them under every order of events):
//  1. A terminal state is final: later events change nothing and cause no action.
//  2. SUCCEEDED if and only if an attempt of the primary ended by itself with status 0 before any
//     other outcome was decided.
//  3. No replica has an attempt that is not ended once the job is terminal.
//  4. A replica's attempt starts only after its previous one ended.
//  5. Every event about an attempt that is not current is ignored.
//
// What an exit or a loss decides, while no outcome is decided:
//
//   primary, by itself with 0                 SUCCEEDED
//   any other replica, by itself with 0       nothing: it is done, the job goes on
//   by itself with 6, 134, 11 or 139          the job restarts, at most 3 times; then FAILED
//   host lost                                 the replica restarts, at most 5 times; then the job
//   any other end                             FAILED
//
// restart_job_on_worker_restart makes a lost host restart the job at once, disable_retries makes
// all of this FAILED. While a restart stops the replicas, only the primary's 0 still decides
// anything: how the others end is a consequence. The first outcome decided stays.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "job/plan.h"
#include "job/types.h"

namespace muster::job {

enum class ExitKind {
  kExited,  // by itself, or by a signal that Muster did not send
  kOutOfMemory,
  kNeverStarted,
  kStopped,    // Muster stopped it
  kAgentLost,  // its agent died without a report: counted as a failure of the replica
};

// "EXITED", "OUT_OF_MEMORY", …
std::string_view ExitKindName(ExitKind kind);

struct ExitCause {
  ExitKind kind = ExitKind::kExited;
  int status = 0;      // 0..255; a signal n is 128 + n
  std::string detail;  // last lines of a traceback, or why it never started
};

// What goes in.
namespace event {
struct Admitted {};  // the engine holds a place for every replica
struct ReplicaStarted {
  ReplicaId replica;
  int attempt = 0;
};
struct ReplicaExited {
  ReplicaId replica;
  int attempt = 0;
  ExitCause cause;
};
// With all that ran there.
struct HostLost {
  ReplicaId replica;
  int attempt = 0;
  std::string host;
};
struct CancelRequested {};
// Found before anything started: an unmapped image, for example.
struct CannotRun {
  Error error;
};
struct Tick {};  // NextDeadline() has come
}  // namespace event
using Event = std::variant<event::Admitted, event::ReplicaStarted, event::ReplicaExited,
                           event::HostLost, event::CancelRequested, event::CannotRun, event::Tick>;

// What comes out, to be carried out in order.
namespace action {
struct StartReplica {
  ReplicaId replica;
  int attempt = 0;
};
// SIGTERM, grace, SIGKILL.
struct StopReplica {
  ReplicaId replica;
  int attempt = 0;
};
// All is ended: free the places.
struct ReleaseGang {};
}  // namespace action
using Action = std::variant<action::StartReplica, action::StopReplica, action::ReleaseGang>;

// A line for the job's log, task "service". The first of a job, "Waiting for job to be
// provisioned.", is its creator's: no event is handled for it.
struct ServiceLine {
  bool is_error = false;
  std::string text;
};

struct Reaction {
  std::vector<Action> actions;
  std::vector<ServiceLine> lines;
};

inline constexpr int kReplicaRestartsMax = 5;
inline constexpr int kJobRestartsMax = 3;

enum class AttemptState { kStarting, kRunning, kStopping, kEnded };

struct AttemptStatus {
  int attempt = -1;  // -1: never started
  AttemptState state = AttemptState::kEnded;
  int host_losses = 0;  // restarts of this replica so far, at most kReplicaRestartsMax
};

class Lifecycle {
 public:
  // A new job, QUEUED.
  Lifecycle(const JobPlan& plan, Time created);

  // From Save(). INTERNAL if the text is not one of this version's.
  static Result<Lifecycle> Restore(std::string_view saved);
  std::string Save() const;  // JSON

  Reaction Handle(const Event& event, Time now);

  // What a crash between Save() and carrying out the actions may have lost: the starts and stops
  // whose effects are not yet known, and the release of an ended job. All are idempotent.
  std::vector<Action> Outstanding() const;

  JobState state() const { return state_; }
  // Set with FAILED and CANCELLED only.
  const std::optional<Error>& error() const { return error_; }
  std::optional<Time> start_time() const { return start_time_; }  // when first RUNNING
  std::optional<Time> end_time() const { return end_time_; }      // when terminal
  // When Tick wants to be called, if at all: timeout, or the end of the wait for resources.
  std::optional<Time> NextDeadline() const;
  const std::map<ReplicaId, AttemptStatus>& replicas() const { return replicas_; }
  // The outcome is decided and replicas are being stopped.
  bool ending() const { return outcome_.has_value() && !IsTerminal(state_); }

 private:
  Lifecycle() = default;

  struct Outcome {
    JobState state = JobState::kFailed;
    std::optional<Error> error;  // none with SUCCEEDED
  };

  void On(const event::Admitted&, Time now, Reaction& reaction);
  void On(const event::ReplicaStarted& event, Time now, Reaction& reaction);
  void On(const event::ReplicaExited& event, Time now, Reaction& reaction);
  void On(const event::HostLost& event, Time now, Reaction& reaction);
  void On(const event::CancelRequested&, Time now, Reaction& reaction);
  void On(const event::CannotRun& event, Time now, Reaction& reaction);
  void On(const event::Tick&, Time now, Reaction& reaction);

  // Null unless `attempt` is the replica's current one and not ended.
  AttemptStatus* FindCurrent(ReplicaId replica, int attempt);
  bool AllEnded() const;
  bool AllUp() const;  // or done already
  bool MayRestartJob() const;

  void Start(ReplicaId replica, AttemptStatus& status, Reaction& reaction);
  void StopAll(Reaction& reaction);
  void MarkStarted(ReplicaId replica, AttemptStatus& status, Time now, Reaction& reaction);
  // Goes on with what waits for the end of all replicas. True if something does.
  bool AdvanceEnding(Time now, Reaction& reaction);
  void RestartReplica(const event::HostLost& event, AttemptStatus& status, Reaction& reaction);
  void RestartJob(Reaction& reaction);
  void Fail(Error error, Time now, Reaction& reaction);
  void Decide(Outcome outcome, Time now, Reaction& reaction);
  void Finish(Time now, Reaction& reaction);
  // Null if what was restored can be a state of this machine; else what is wrong.
  const char* Inconsistency() const;

  JobState state_ = JobState::kQueued;
  std::optional<Outcome> outcome_;
  std::optional<Error> error_;
  SchedulingRules rules_;
  Time created_{};
  std::optional<Time> admitted_time_;
  std::optional<Time> start_time_;
  std::optional<Time> end_time_;
  std::map<ReplicaId, AttemptStatus> replicas_;
  bool restarting_ = false;  // all replicas are being stopped to be started again
  int job_restarts_ = 0;     // at most kJobRestartsMax
};

// The error texts of contract §4: "The replica workerpool1-1 exited with a non-zero status of 1.
// Termination reason: Error. \n<detail>".
std::string ExitMessage(ReplicaId replica, const ExitCause& cause);

}  // namespace muster::job
