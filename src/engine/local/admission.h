// Who may run on this machine, and who waits: gangs are admitted whole, strictly first in, first
// out. Pure: the engine asks for the next gang after each change.
//
// Invariants:
//  1. What is admitted never exceeds the limits, except for one gang that is larger than the whole
//     machine: it runs alone. (Gangs taken back after a restart count as they are.)
//  2. No GPU belongs to two gangs.
//  3. No gang overtakes another, except those that the machine can never hold: they wait aside, so
//     that they cannot block the others for ever.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace muster::engine {

// How much may be admitted at once. vCPUs and memory are the machine's times the oversubscription.
struct Limits {
  double vcpus = 0;
  int64_t memory_mb = 0;
  std::vector<int> gpus;     // indices; never oversubscribed
  double oversubscribe = 1;  // only told to users: it is contained in the numbers above
};

enum class AcceleratorPolicy {
  kRunWithout,  // with as many as there are, and a warning
  kWait,
};

struct Admitted {
  std::string job_uid;
  std::map<job::ReplicaId, std::vector<int>> gpus;
  std::vector<std::string> warnings;
};

class Admission {
 public:
  Admission(Limits limits, AcceleratorPolicy policy);

  // At the end of the queue. ALREADY_EXISTS if the job waits or runs.
  Status Queue(const Gang& gang);
  // The gang that Admit would admit; empty: none can be.
  std::string Next() const;
  // Only for Next().
  Admitted Admit(const std::string& job_uid);
  // Takes back what was admitted before a restart, with the GPUs it had.
  void Adopt(const Gang& gang, std::map<job::ReplicaId, std::vector<int>> gpus);
  // Frees or dequeues; a job that is not known is fine.
  void Release(const std::string& job_uid);

  // One sentence; empty if the job does not wait.
  std::string WhyWaiting(const std::string& job_uid) const;

  const Limits& limits() const { return limits_; }
  double vcpus_used() const;
  int64_t memory_mb_used() const;
  std::vector<int> gpus_free() const;
  size_t admitted_count() const { return admitted_.size(); }

 private:
  struct Demand {
    std::string job_uid;
    std::string name;
    double vcpus = 0;
    int64_t memory_mb = 0;
    std::map<job::ReplicaId, int> gpus;  // what it will get
    int gpus_asked = 0;
    std::vector<std::string> warnings;
    std::string never;  // why the machine can never hold it
  };
  struct Holding {
    double vcpus = 0;
    int64_t memory_mb = 0;
    std::map<job::ReplicaId, std::vector<int>> gpus;
  };

  Demand DemandOf(const Gang& gang) const;
  void FitAccelerators(const Gang& gang, Demand& demand) const;
  bool IsGiant(const Demand& demand) const;
  bool Fits(const Demand& demand) const;
  std::string WhyWaiting(const Demand& demand, size_t ahead) const;

  const Limits limits_;
  const AcceleratorPolicy policy_;
  std::deque<Demand> queue_;
  std::deque<Demand> aside_;  // can never be admitted
  std::map<std::string, Holding> admitted_;
};

}  // namespace muster::engine
