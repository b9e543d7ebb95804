// lifecycle_sim [--seeds N] [--first N]   runs N seeds; without arguments, what the tests run
// lifecycle_sim --seed N                  runs one and tells what happens
#include <fmt/core.h>

#include <charconv>
#include <cstring>
#include <string_view>

#include "sim/lifecycle_world.h"

namespace muster::sim {
namespace {

constexpr uint64_t kSeeds = 5'000;

// What this many seeds must have reached, for the simulation to be worth its name.
constexpr const char* kMustHappen[] = {"admit",
                                       "succeed",
                                       "fail",
                                       "cancel",
                                       "restart the replica",
                                       "restart the job",
                                       "crash before saving",
                                       "crash after saving",
                                       "ended in state 4",
                                       "ended in state 5",
                                       "ended in state 7",
                                       "error CANCELLED",
                                       "error INVALID_ARGUMENT",
                                       "error DEADLINE_EXCEEDED",
                                       "error RESOURCE_EXHAUSTED",
                                       "error UNAVAILABLE",
                                       "error FAILED_PRECONDITION",
                                       "all job restarts used",
                                       "all restarts of a replica used"};

bool RunSeed(uint64_t seed, bool verbose, Coverage& coverage) {
  const std::optional<std::string> wrong = World(seed, verbose, coverage).Run();
  if (wrong) {
    fmt::print(stderr, "seed {} failed: {}\nagain, with every step: lifecycle_sim --seed {}\n",
               seed, *wrong, seed);
  }
  return !wrong;
}

int RunSeeds(uint64_t first, uint64_t count) {
  Coverage coverage;
  int failed = 0;
  for (uint64_t seed = first; seed < first + count && failed < 5; ++seed) {
    failed += RunSeed(seed, false, coverage) ? 0 : 1;
  }
  fmt::print("{} seeds from {}\n", count, first);
  for (const auto& [what, times] : coverage.counts) fmt::print("{:>9}  {}\n", times, what);
  if (failed == 0 && count >= kSeeds) {
    for (const char* what : kMustHappen) {
      if (coverage.counts[what] > 0) continue;
      fmt::print(stderr, "never happened: {}\n", what);
      ++failed;
    }
  }
  return failed == 0 ? 0 : 1;
}

bool ParseNumber(const char* text, uint64_t& number) {
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  return error == std::errc() && stop == end;
}

int Main(int argc, char** argv) {
  uint64_t first = 1, count = kSeeds, single = 0;
  bool is_single = false;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view flag = argv[i];
    uint64_t* number = flag == "--seed"    ? &single
                       : flag == "--seeds" ? &count
                       : flag == "--first" ? &first
                                           : nullptr;
    if (number == nullptr || i + 1 == argc || !ParseNumber(argv[i + 1], *number)) {
      fmt::print(stderr, "usage: lifecycle_sim [--seeds N] [--first N] | --seed N\n");
      return 2;
    }
    is_single = is_single || flag == "--seed";
  }
  if (!is_single) return RunSeeds(first, count);
  Coverage coverage;
  return RunSeed(single, true, coverage) ? 0 : 1;
}

}  // namespace
}  // namespace muster::sim

int main(int argc, char** argv) { return muster::sim::Main(argc, argv); }
