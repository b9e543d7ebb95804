// Which bytes of an operation belong to which endpoint, in which chunks. Integer arithmetic on the
// plan alone: every rank that has the plan gets the same answer.
#pragma once

#include <cstdint>
#include <vector>

#include "collective/plan/plan.h"
#include "collective/types/types.h"

namespace muster::collective {

// Boundaries between endpoints are multiples of this: a cache line, and of every element's size.
inline constexpr uint64_t kLayoutAlignment = 64;

struct Shape {
  Collective kind = Collective::kAllReduce;
  uint64_t bytes = 0;     // of the whole payload; for reduce-scatter and all-gather n equal blocks
  uint32_t root = 0;      // of a broadcast
  uint64_t sequence = 0;  // small payloads take their endpoint in turn
};

// A run of bytes of one endpoint, cut into chunks of at most chunk_bytes, in order. A slice of no
// bytes is one chunk of no bytes: a barrier.
struct Slice {
  uint32_t endpoint = 0;
  uint32_t chunk_bytes = kChunkBytesMin;
  uint64_t offset = 0;
  uint64_t length = 0;

  uint64_t Chunks() const { return length == 0 ? 1 : (length + chunk_bytes - 1) / chunk_bytes; }
  bool operator==(const Slice&) const = default;
};

// Slices in the order of their offsets; each endpoint at most once.
std::vector<Slice> MakeLayout(const Plan& plan, const Shape& shape);

// The same for a part of an all-reduce or broadcast whose endpoint was lost: bytes [offset, offset
// + length) over the endpoints of a new plan.
std::vector<Slice> MakeLayoutOfPart(const Plan& plan, uint64_t sequence, uint64_t offset,
                                    uint64_t length);

// Reduce-scatter and all-gather have lanes of their own (Plan::exchange), so that they and the
// reductions neither wait for each other nor share windows.
constexpr bool UsesExchange(Collective kind) {
  return kind == Collective::kReduceScatter || kind == Collective::kAllGather;
}

}  // namespace muster::collective
