// How many reducers, and what fewer cost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace muster::collective {

// Workers and reducers are each on a host of their own, all workers' links alike, all reducers'
// too.
struct SizingQuestion {
  uint32_t workers = 0;
  double worker_gbps = 0;
  double reducer_gbps = 0;
};

// The fewest reducers with which an all-reduce runs at the workers' bandwidth: n·B/b, rounded up.
// 0 for one or two workers, which reach it alone.
uint32_t ReducersNeeded(const SizingQuestion& question);

struct SizingRow {
  uint32_t reducers = 0;
  double bus_gbps = 0;   // payload per second
  double slowdown = 1;   // time, in terms of the time with enough reducers
  double over_ring = 1;  // speed, in terms of a ring's
};

// From no reducers to as many as are needed.
std::vector<SizingRow> SizingTable(const SizingQuestion& question);

// The answer in words with a short table. Fails with kInvalidArgument on a question without sense.
Result<std::string> ExplainSizing(const SizingQuestion& question);

}  // namespace muster::collective
