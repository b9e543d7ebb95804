// One job in a made-up cluster, all of it decided by a seed: an engine that admits, agents whose
// programs start, exit, crash, hang, lose their host or their agent, users who cancel, clocks that
// run, reports that come late, twice, in any order or about attempts long gone, and a control plane
// that is killed between handling, saving and acting.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "job/lifecycle.h"
#include "sim/lifecycle_oracle.h"

namespace muster::sim {

// How often what happened, over all seeds: a simulation that never gets somewhere proves nothing.
struct Coverage {
  std::map<std::string, int64_t> counts;
  void Count(const std::string& what) { ++counts[what]; }
};

class World {
 public:
  World(uint64_t seed, bool verbose, Coverage& coverage);

  // What went wrong, or nothing.
  std::optional<std::string> Run();

 private:
  // What really happens on the machines.
  struct Attempt {
    bool is_up = false;    // its program runs
    bool is_over = false;  // nothing of it runs
    bool is_told_to_stop = false;
  };
  using Key = std::pair<job::ReplicaId, int>;

  uint64_t Random(uint64_t below);
  bool Chance(int percent) { return Random(100) < static_cast<uint64_t>(percent); }

  void Wreak();  // one random step
  void Calm();   // one step towards the end
  void MoveAttempt(const Key& key, Attempt& attempt);
  void End(const Key& key, Attempt& attempt, job::ExitKind kind, int status);
  void LoseHost(const Key& key, Attempt& attempt);
  void Mail(job::Event event) { mail_.push_back(std::move(event)); }
  void MailNonsense();
  std::vector<Key> Alive() const;

  void Deliver(size_t i, bool may_repeat);
  void Handle(const job::Event& event);
  void Reload(const std::string& saved);
  void CarryOut(const std::vector<job::Action>& actions);
  void CarryOut(const job::action::StartReplica& start);
  void CarryOut(const job::action::StopReplica& stop);
  void CarryOut(const job::action::ReleaseGang&);
  void CheckEnd();
  void Wrong(const std::string& what);
  void Trace(const std::string& line);

  std::mt19937_64 random_;
  const bool verbose_;
  Coverage& coverage_;
  job::JobPlan plan_;
  int crash_percent_;
  int fault_percent_;
  int host_loss_percent_ = 35;  // of the faults
  int cancel_permille_;

  Time now_{std::chrono::seconds(1'700'000'000)};
  std::optional<job::Lifecycle> job_;
  std::string saved_;
  std::optional<Oracle> oracle_;
  std::map<Key, Attempt> attempts_;
  std::vector<job::Event> mail_;
  bool is_released_ = false;
  std::optional<std::string> wrong_;
};

}  // namespace muster::sim
