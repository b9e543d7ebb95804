// One run: ranks, reducers, a program, a network, and what goes wrong, all from a seed.
#pragma once

#include <cstdint>
#include <string>

namespace muster::collective::sim {

// What a run is about; the seed decides the rest.
enum class Trouble {
  kNone,          // delays and slow peers only
  kReducers,      // reducers die or freeze, one or all, at any moment
  kWorker,        // a worker dies: every other one must say so
  kDisagreement,  // one rank calls another operation than the others
  kAbort,         // one rank gives up
};

struct Outcome {
  std::string failure;  // empty: all as it should be
  Trouble trouble = Trouble::kNone;
  uint64_t frames = 0;
  uint32_t losses = 0;      // reducers lost
  uint32_t recoveries = 0;  // epochs that began with a loss
  uint32_t operations = 0;  // that were finished, at all ranks
};

Outcome Run(uint64_t seed, bool trace);

}  // namespace muster::collective::sim
