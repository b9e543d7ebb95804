#include "collective/plan/layout.h"

#include "base/check.h"

namespace muster::collective {
namespace {

using Wide = unsigned __int128;

std::vector<Slice> Blocks(const Plan& plan, uint64_t bytes) {
  MUSTER_CHECK(bytes % plan.workers == 0);
  const uint64_t block = bytes / plan.workers;
  std::vector<Slice> slices;
  slices.reserve(plan.workers);
  for (uint32_t w = 0; w < plan.workers; ++w) {
    slices.push_back({.endpoint = w,
                      .chunk_bytes = plan.exchange.chunk_bytes,
                      .offset = w * block,
                      .length = block});
  }
  return slices;
}

// The endpoint of a payload that is not divided: those with a share, in turn.
uint32_t InTurn(const Plan& plan, uint64_t sequence) {
  uint32_t used = 0;
  for (const Endpoint& endpoint : plan.endpoints) used += endpoint.share > 0 ? 1 : 0;
  MUSTER_CHECK(used > 0);
  uint64_t turn = sequence % used;
  for (uint32_t e = 0;; ++e) {
    if (plan.endpoints[e].share > 0 && turn-- == 0) return e;
  }
}

}  // namespace

std::vector<Slice> MakeLayout(const Plan& plan, const Shape& shape) {
  if (UsesExchange(shape.kind)) return Blocks(plan, shape.bytes);
  return MakeLayoutOfPart(plan, shape.sequence, 0, shape.bytes);
}

std::vector<Slice> MakeLayoutOfPart(const Plan& plan, uint64_t sequence, uint64_t offset,
                                    uint64_t length) {
  if (length <= plan.whole_bytes) {
    const uint32_t e = InTurn(plan, sequence);
    return {{.endpoint = e,
             .chunk_bytes = plan.endpoints[e].lane.chunk_bytes,
             .offset = offset,
             .length = length}};
  }
  std::vector<Slice> slices;
  uint64_t share = 0;
  uint64_t begin = 0;
  for (uint32_t e = 0; e < plan.endpoints.size(); ++e) {
    share += plan.endpoints[e].share;
    uint64_t end = static_cast<uint64_t>(Wide{length} * share / kShareOne);
    if (share < kShareOne) end -= end % kLayoutAlignment;
    if (end <= begin) continue;
    slices.push_back({.endpoint = e,
                      .chunk_bytes = plan.endpoints[e].lane.chunk_bytes,
                      .offset = offset + begin,
                      .length = end - begin});
    begin = end;
  }
  return slices;
}

}  // namespace muster::collective
