// All chance of a run comes from one of these, so that a seed tells the whole story.
#pragma once

#include <cstdint>

namespace muster::collective::sim {

// splitmix64: the same numbers on every machine, unlike the standard library's distributions.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15 + 0x1234567) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  // From 0 to limit − 1.
  uint64_t Below(uint64_t limit) { return Next() % limit; }
  uint64_t From(uint64_t first, uint64_t last) { return first + Below(last - first + 1); }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

 private:
  uint64_t state_;
};

}  // namespace muster::collective::sim
