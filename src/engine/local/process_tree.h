// Finding and ending the processes of a replica whose agent is gone.
//
// They are known by their cgroup, where there is one, and by attempt::kAttemptVariable, which the
// control plane sets in every replica's environment.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"

namespace muster::engine {

// Live processes, but this one, with the variable in the environment that they started with: all
// of `value`, or with a '/' at its end everything that begins with it.
std::vector<int> FindMarkedProcesses(std::string_view value);

// Reaps ended children of this process that are in other sessions and not in `keep`: what replicas
// left, if this process is a subreaper.
void ReapOrphans(const std::vector<int>& keep);

class TreeKiller {
 public:
  // Cgroups may be empty or missing.
  TreeKiller(std::string marker, std::vector<std::filesystem::path> cgroups);

  // One round: SIGKILL to all that is found. True once nothing is left; until then it is to be
  // called again, some milliseconds later. Never blocks.
  bool Step();
  // Rounds until nothing is left, for at most that long.
  bool StepFor(std::chrono::milliseconds limit);

  size_t killed_count() const { return killed_count_; }

 private:
  void Kill(int pid);

  const std::string marker_;
  const std::vector<std::filesystem::path> cgroups_;
  std::map<int, UniqueFd> dying_;  // pid → pidfd
  size_t killed_count_ = 0;
  int empty_rounds_ = 0;
};

}  // namespace muster::engine
