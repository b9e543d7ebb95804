#include "collective/plan/layout.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

namespace muster::collective {
namespace {

Plan PlanOf(uint32_t workers, uint32_t reducers) {
  Cluster cluster;
  for (uint32_t i = 0; i < workers; ++i)
    cluster.workers.push_back({fmt::format("w{}", i), 1.0 + i});
  for (uint32_t i = 0; i < reducers; ++i) cluster.reducers.push_back({fmt::format("r{}", i), 2});
  return MakePlan(cluster)->plan;
}

RC_GTEST_PROP(LayoutProperties, SlicesTileThePayloadInOrder, ()) {
  const Plan plan = PlanOf(*rc::gen::inRange(2, 12), *rc::gen::inRange(0, 8));
  const auto offset = *rc::gen::inRange<uint64_t>(0, uint64_t{1} << 40);
  const auto length = *rc::gen::oneOf(rc::gen::inRange<uint64_t>(0, 1 << 20),
                                      rc::gen::inRange<uint64_t>(0, uint64_t{1} << 50));
  uint64_t at = offset;
  std::set<uint32_t> seen;
  for (const Slice& slice :
       MakeLayoutOfPart(plan, *rc::gen::arbitrary<uint32_t>(), offset, length)) {
    RC_ASSERT(slice.offset == at);
    RC_ASSERT(slice.endpoint < plan.endpoints.size());
    RC_ASSERT(plan.endpoints[slice.endpoint].share > 0u);
    RC_ASSERT(seen.insert(slice.endpoint).second);
    RC_ASSERT(slice.chunk_bytes == plan.endpoints[slice.endpoint].lane.chunk_bytes);
    at += slice.length;
    if (at != offset + length) RC_ASSERT((at - offset) % kLayoutAlignment == 0u);
  }
  RC_ASSERT(at == offset + length);
}

RC_GTEST_PROP(LayoutProperties, LargePayloadsFollowTheShares, ()) {
  const Plan plan = PlanOf(*rc::gen::inRange(3, 12), *rc::gen::inRange(0, 8));
  const uint64_t bytes = uint64_t{1} << 34;
  for (const Slice& slice : MakeLayout(plan, {.bytes = bytes})) {
    const double want = static_cast<double>(plan.endpoints[slice.endpoint].share) / kShareOne;
    RC_ASSERT(std::abs(static_cast<double>(slice.length) / bytes - want) < 1e-7);
  }
}

TEST(LayoutTest, SmallPayloadsTakeTheEndpointsInTurn) {
  const Plan plan = PlanOf(4, 2);
  std::map<uint32_t, int> uses;
  uint32_t used = 0;
  for (const Endpoint& e : plan.endpoints) used += e.share > 0 ? 1 : 0;
  for (uint64_t sequence = 0; sequence < used * 3; ++sequence) {
    const auto slices = MakeLayout(plan, {.bytes = 400, .sequence = sequence});
    ASSERT_EQ(slices.size(), 1u);
    EXPECT_EQ(slices[0].length, 400u);
    ++uses[slices[0].endpoint];
  }
  EXPECT_EQ(uses.size(), used);
  for (const auto& [endpoint, count] : uses) EXPECT_EQ(count, 3) << endpoint;
}

TEST(LayoutTest, BlocksBelongToTheirRanks) {
  const Plan plan = PlanOf(4, 2);
  const auto slices = MakeLayout(plan, {.kind = Collective::kAllGather, .bytes = 4000});
  ASSERT_EQ(slices.size(), 4u);
  for (uint32_t r = 0; r < 4; ++r) {
    EXPECT_EQ(slices[r].endpoint, r);
    EXPECT_EQ(slices[r].offset, r * 1000u);
    EXPECT_EQ(slices[r].length, 1000u);
  }
}

TEST(LayoutTest, ABarrierIsOneChunkOfNothing) {
  const auto slices = MakeLayout(PlanOf(4, 0), {.kind = Collective::kBarrier, .sequence = 5});
  ASSERT_EQ(slices.size(), 1u);
  EXPECT_EQ(slices[0].length, 0u);
  EXPECT_EQ(slices[0].Chunks(), 1u);
}

}  // namespace
}  // namespace muster::collective
