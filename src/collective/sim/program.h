// What the ranks do: the same operations in the same order, with inputs and expected results.
#pragma once

#include <vector>

#include "collective/round/worker.h"
#include "collective/sim/random.h"

namespace muster::collective::sim {

using Bytes = std::vector<std::byte>;

struct Step {
  Operation operation;  // without buffers
  bool in_place = false;
  std::vector<Bytes> inputs;  // by rank
  // What the output must be in the end; empty where the kind leaves it open.
  std::vector<Bytes> outputs;
};

// Sizes, kinds and types at random; results by the plainest way there is.
Step MakeStep(Random& random, uint16_t ranks, uint32_t divisor);

}  // namespace muster::collective::sim
