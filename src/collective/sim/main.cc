// collective_sim [--seeds N] [--first N]   runs N seeds and stops at the first that fails
// collective_sim --seed N [--trace]        runs one again, and tells what happens
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "collective/sim/cluster.h"

namespace {

struct Options {
  uint64_t first = 1;
  uint64_t seeds = 3000;
  bool trace = false;
};

bool Parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--trace") {
      options.trace = true;
      continue;
    }
    if (i + 1 == argc) return false;
    char* end = nullptr;
    const uint64_t value = std::strtoull(argv[++i], &end, 10);
    if (end == argv[i] || *end != '\0') return false;
    if (flag == "--seed") {
      options.first = value;
      options.seeds = 1;
    } else if (flag == "--seeds") {
      options.seeds = value;
    } else if (flag == "--first") {
      options.first = value;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  using muster::collective::sim::Outcome;
  Options options;
  if (!Parse(argc, argv, options)) {
    std::fprintf(stderr, "usage: collective_sim [--seeds N] [--first N] | --seed N [--trace]\n");
    return 2;
  }
  Outcome sum;
  for (uint64_t seed = options.first; seed < options.first + options.seeds; ++seed) {
    const Outcome outcome = muster::collective::sim::Run(seed, options.trace);
    if (!outcome.failure.empty()) {
      std::fprintf(stderr, "seed %lu failed: %s\nRun it again: collective_sim --seed %lu --trace\n",
                   static_cast<unsigned long>(seed), outcome.failure.c_str(),
                   static_cast<unsigned long>(seed));
      return 1;
    }
    sum.frames += outcome.frames;
    sum.losses += outcome.losses;
    sum.recoveries += outcome.recoveries;
    sum.operations += outcome.operations;
  }
  std::printf("%lu seeds: %u operations, %lu frames, %u reducers lost, %u recoveries\n",
              static_cast<unsigned long>(options.seeds), sum.operations,
              static_cast<unsigned long>(sum.frames), sum.losses, sum.recoveries);
  return 0;
}
