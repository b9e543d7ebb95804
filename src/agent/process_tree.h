// The agent's descendants. It is their subreaper: whatever forks away, also into a session of its
// own, stays below it until it is gone.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::agent {

struct Descendant {
  int pid = 0;
  uint64_t start_time_ticks = 0;  // tells it from a later process with the same number
};

// All of them, zombies too.
std::vector<Descendant> FindDescendants();

// To every descendant that there is now; one that is just being forked may be missed, so repeat
// until none is left. Processes that are stopped are also continued.
void SignalDescendants(int signal);

}  // namespace muster::agent
