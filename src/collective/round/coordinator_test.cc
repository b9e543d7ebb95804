#include "collective/round/coordinator.h"

#include <gtest/gtest.h>

namespace muster::collective {
namespace {

constexpr uint32_t kEpoch = 0x10000;

Plan TwoAndTwo() {
  Plan plan{.workers = 2, .reducers = 2, .endpoints = {}};
  plan.endpoints.resize(4);
  plan.endpoints[2].share = kShareOne / 2;
  plan.endpoints[3].share = kShareOne / 2;
  return plan;
}

TEST(CoordinatorTest, TheFurthestWorkerHolds) {
  RecoveryCoordinator coordinator(kEpoch, TwoAndTwo(), WithoutReducer);
  EXPECT_FALSE(coordinator.TakeFence());
  coordinator.Lost(3);
  const auto fence = coordinator.TakeFence();
  ASSERT_TRUE(fence);
  EXPECT_EQ(fence->epoch, kEpoch + 1);
  EXPECT_EQ(fence->message.endpoint, 3);
  ASSERT_TRUE(coordinator.Prefix(1, kEpoch + 1, {7, {{kEpoch, {5, 8}}}}));
  EXPECT_FALSE(coordinator.TakeRecovery());
  ASSERT_TRUE(coordinator.Prefix(0, kEpoch + 1, {8, {{kEpoch, {5, 4}}}}));
  const auto recovery = coordinator.TakeRecovery();
  ASSERT_TRUE(recovery);
  EXPECT_EQ(recovery->epoch, kEpoch + 1);
  EXPECT_EQ(recovery->message.started, 8u);
  ASSERT_EQ(recovery->message.streams.size(), 1u);
  EXPECT_EQ(recovery->message.streams[0].holder, 1);
  EXPECT_EQ(recovery->message.plan.endpoints[3].share, 0u);
  EXPECT_EQ(recovery->message.plan.endpoints[2].share, kShareOne);
}

TEST(CoordinatorTest, OneLossAtATimeAndEachOnce) {
  RecoveryCoordinator coordinator(kEpoch, TwoAndTwo(), WithoutReducer);
  coordinator.Lost(2);
  coordinator.Lost(3);
  coordinator.Lost(2);
  EXPECT_EQ(coordinator.TakeFence()->message.endpoint, 2);
  EXPECT_FALSE(coordinator.TakeFence());
  ASSERT_TRUE(coordinator.Prefix(0, kEpoch + 1, {}));
  ASSERT_TRUE(coordinator.Prefix(1, kEpoch + 1, {}));
  ASSERT_TRUE(coordinator.TakeRecovery());
  const auto second = coordinator.TakeFence();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->message.endpoint, 3);
  EXPECT_EQ(second->epoch, kEpoch + 2);
  ASSERT_TRUE(coordinator.Prefix(0, kEpoch + 2, {}));
  ASSERT_TRUE(coordinator.Prefix(1, kEpoch + 2, {}));
  const auto last = coordinator.TakeRecovery();
  ASSERT_TRUE(last);
  // Nobody is left but the workers.
  EXPECT_EQ(last->message.plan.endpoints[0].share, kShareOne / 2);
  EXPECT_FALSE(coordinator.TakeFence());
}

TEST(CoordinatorTest, ReportsMustBeAskedForAndFit) {
  RecoveryCoordinator coordinator(kEpoch, TwoAndTwo(), WithoutReducer);
  EXPECT_FALSE(coordinator.Prefix(1, kEpoch + 1, {}));
  coordinator.Lost(3);
  ASSERT_TRUE(coordinator.TakeFence());
  EXPECT_FALSE(coordinator.Prefix(1, kEpoch, {}));
  EXPECT_FALSE(coordinator.Prefix(2, kEpoch + 1, {}));
  ASSERT_TRUE(coordinator.Prefix(1, kEpoch + 1, {0, {{kEpoch, {}}}}));
  EXPECT_FALSE(coordinator.Prefix(1, kEpoch + 1, {0, {{kEpoch, {}}}}));
  EXPECT_FALSE(coordinator.Prefix(0, kEpoch + 1, {0, {}}));
}

}  // namespace
}  // namespace muster::collective
