// What Lifecycle must do with an event, said a second time and from the outside: from the contract,
// the public state before the event, and the oracle's own count of restarts.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "job/lifecycle.h"

namespace muster::sim {

enum class Effect {
  kNone,   // at most: a replica is up or done, an ending goes on
  kAdmit,  // everything starts
  kSucceed,
  kFail,
  kCancel,
  kRestartReplica,
  kRestartJob,
};

std::string_view EffectName(Effect effect);

class Oracle {
 public:
  explicit Oracle(const job::SchedulingRules& rules) : rules_(rules) {}

  // Before the event is handled.
  Effect Expect(const job::Lifecycle& job, const job::Event& event, Time now) const;

  // After: what is wrong, or nothing. Also checks what holds after every event.
  std::optional<std::string> Check(const job::Lifecycle& before, const job::Lifecycle& after,
                                   const job::Event& event, Effect expected,
                                   const job::Reaction& reaction);

  // The event and its effect are stored. `after` as in Check.
  void Commit(const job::Lifecycle& after, const job::Event& event, Effect effect);

  int job_restarts() const { return job_restarts_; }
  int most_replica_restarts() const;  // of any one replica
  std::optional<job::JobState> decided() const { return decided_; }

 private:
  Effect ExpectExit(const job::Lifecycle& job, const job::event::ReplicaExited& event) const;
  Effect ExpectLoss(const job::Lifecycle& job, const job::event::HostLost& event) const;
  std::optional<std::string> CheckAlways(const job::Lifecycle& before, const job::Lifecycle& after,
                                         const job::Reaction& reaction) const;

  const job::SchedulingRules rules_;
  std::optional<job::JobState> decided_;
  bool restarting_ = false;
  int job_restarts_ = 0;
  std::map<job::ReplicaId, int> losses_;
  std::optional<Time> first_running_;
};

}  // namespace muster::sim
