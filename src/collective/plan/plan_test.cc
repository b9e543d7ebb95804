#include "collective/plan/plan.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

namespace muster::collective {
namespace {

Cluster Equal(uint32_t workers, double gbps, uint32_t reducers, double reducer_gbps) {
  Cluster cluster;
  for (uint32_t i = 0; i < workers; ++i) cluster.workers.push_back({fmt::format("w{}", i), gbps});
  for (uint32_t i = 0; i < reducers; ++i) {
    cluster.reducers.push_back({fmt::format("r{}", i), reducer_gbps});
  }
  return cluster;
}

rc::Gen<Cluster> AnyCluster() {
  return rc::gen::exec([] {
    Cluster cluster;
    const auto gbps = rc::gen::map(rc::gen::inRange(1, 4001), [](int v) { return v * 0.1; });
    const int hosts = *rc::gen::inRange(1, 40);
    const auto host =
        rc::gen::map(rc::gen::inRange(0, hosts), [](int h) { return fmt::format("host{}", h); });
    const int workers = *rc::gen::inRange(1, 24);
    const int reducers = *rc::gen::inRange(0, 24);
    const bool apart = *rc::gen::arbitrary<bool>();
    for (int i = 0; i < workers; ++i) {
      cluster.workers.push_back({apart ? fmt::format("w{}", i) : *host, *gbps});
    }
    for (int i = 0; i < reducers; ++i) {
      cluster.reducers.push_back({apart ? fmt::format("r{}", i) : *host, *gbps});
    }
    cluster.one_speaker_per_host = *rc::gen::arbitrary<bool>();
    cluster.round_trip_s = *rc::gen::inRange(0, 20000) * 1e-6;
    return cluster;
  });
}

double ShareOf(const Plan& plan, uint32_t e) {
  return static_cast<double>(plan.endpoints[e].share) / kShareOne;
}

// What the busiest link needs, in seconds per gigabit of payload.
double SlowestLink(const PlannedCluster& made) {
  const auto& [plan, forecast] = made;
  const double n = plan.workers;
  double slowest = 0;
  for (uint32_t e = 0; e < plan.endpoints.size(); ++e) {
    const bool worker = e < plan.workers;
    const double moves = worker ? 1 + (n - 2) * ShareOf(plan, e) : n * ShareOf(plan, e);
    const double gbps = worker ? forecast.worker_gbps[e] : forecast.reducer_gbps[e - plan.workers];
    if (moves > 0) slowest = std::max(slowest, moves / gbps);
  }
  return slowest;
}

// An independent way to the least T: bisect on whether the shares allowed reach 1.
double Search(const std::vector<double>& workers, const std::vector<double>& reducers) {
  const auto n = static_cast<double>(workers.size());
  const auto enough = [&](double t) {
    double sum = 0;
    for (const double b : workers) {
      if (t * b < 1) return false;
      sum += n > 2 ? (t * b - 1) / (n - 2) : 1;
    }
    for (const double b : reducers) sum += t * b / n;
    return sum >= 1;
  };
  double low = 0;
  double high = 1e6;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

TEST(PlanTest, EqualLinksFollowTheClosedForm) {
  for (const auto& [n, k] : {std::pair{8, 8}, {8, 4}, {8, 2}, {8, 0}, {4, 2}, {3, 1}, {64, 5}}) {
    const auto made = MakePlan(Equal(n, 0.4, k, 0.4));
    ASSERT_TRUE(made);
    const double closed = 2.0 * n * (n - 1) / (n * n + k * n - 2.0 * k) / 0.4;
    EXPECT_NEAR(1 / made->forecast.bus_gbps, std::max(closed, 1 / 0.4), 1e-9) << n << " " << k;
  }
}

TEST(PlanTest, KnownFigures) {
  EXPECT_NEAR(1 / MakePlan(Equal(8, 1, 2, 1))->forecast.bus_gbps, 112.0 / 76, 1e-9);
  EXPECT_NEAR(1 / MakePlan(Equal(8, 1, 0, 1))->forecast.bus_gbps, 1.75, 1e-9);
  EXPECT_NEAR(MakePlan(Equal(8, 1, 2, 1))->forecast.reducers_alone_gbps, 0.25, 1e-9);
  // 4 × 400 + 4 × 200 Mbit/s, at 382/400 goodput: 164 without, 191 with two reducers of 400.
  Cluster mixed = Equal(8, 0.382, 0, 0);
  for (int i = 4; i < 8; ++i) mixed.workers[i].gbps = 0.191;
  EXPECT_NEAR(MakePlan(mixed)->forecast.bus_gbps, 0.1637, 1e-3);
  mixed.reducers = Equal(1, 1, 2, 0.382).reducers;
  EXPECT_NEAR(MakePlan(mixed)->forecast.bus_gbps, 0.191, 1e-3);
}

TEST(PlanTest, EqualLinksShareEqually) {
  const auto made = MakePlan(Equal(8, 1, 4, 1));
  ASSERT_TRUE(made);
  for (uint32_t e = 1; e < 8; ++e)
    EXPECT_NEAR(ShareOf(made->plan, e), ShareOf(made->plan, 0), 1e-8);
  EXPECT_NEAR(ShareOf(made->plan, 0), (112.0 / 88 - 1) / 6, 1e-7);
  EXPECT_NEAR(ShareOf(made->plan, 8), 112.0 / 88 / 8, 1e-7);
  EXPECT_EQ(made->forecast.kind, PlanKind::kMixed);
}

TEST(PlanTest, EnoughReducersReachTheLinksBandwidthAndSumAlone) {
  for (const uint32_t k : {8u, 9u, 20u}) {
    const auto made = MakePlan(Equal(8, 10, k, 10));
    ASSERT_TRUE(made);
    EXPECT_DOUBLE_EQ(made->forecast.bus_gbps, 10);
    EXPECT_EQ(made->forecast.kind, PlanKind::kReductionServer);
    for (uint32_t e = 0; e < 8; ++e) EXPECT_EQ(made->plan.endpoints[e].share, 0u);
  }
}

RC_GTEST_PROP(PlanProperties, SharesAddUpAndNoLinkIsAboveThePrediction, ()) {
  const auto made = MakePlan(*AnyCluster());
  RC_ASSERT(made.has_value());
  RC_ASSERT(CheckPlan(made->plan).has_value());  // shares add up to kShareOne there
  if (made->plan.workers < 2) return;
  RC_ASSERT(SlowestLink(*made) * made->forecast.bus_gbps < 1 + 1e-5);
}

RC_GTEST_PROP(PlanProperties, TheFormulaIsWhatASearchFinds, ()) {
  const auto made = MakePlan(*AnyCluster());
  const Forecast& forecast = made->forecast;
  if (made->plan.workers < 2) return;
  const double searched = Search(forecast.worker_gbps, forecast.reducer_gbps);
  RC_ASSERT(std::abs(searched * forecast.bus_gbps - 1) < 1e-9);
}

RC_GTEST_PROP(PlanProperties, NeverSlowerThanARingNorThanReducersAlone, ()) {
  const auto made = MakePlan(*AnyCluster());
  const Forecast& forecast = made->forecast;
  RC_ASSERT(forecast.bus_gbps >= forecast.ring_gbps * (1 - 1e-9));
  RC_ASSERT(forecast.bus_gbps >= forecast.reducers_alone_gbps * (1 - 1e-9));
  RC_ASSERT(forecast.bus_gbps <= forecast.ceiling_gbps * (1 + 1e-9));
}

RC_GTEST_PROP(PlanProperties, OneMoreReducerNeverHarms, ()) {
  Cluster cluster = *AnyCluster();
  const double before = MakePlan(cluster)->forecast.bus_gbps;
  cluster.reducers.push_back({"another", *rc::gen::inRange(1, 100) * 1.0});
  RC_ASSERT(MakePlan(cluster)->forecast.bus_gbps >= before * (1 - 1e-9));
}

RC_GTEST_PROP(PlanProperties, WindowsGrowWithShares, ()) {
  const auto made = MakePlan(*AnyCluster());
  const auto& endpoints = made->plan.endpoints;
  for (const Endpoint& a : endpoints) {
    for (const Endpoint& b : endpoints) {
      if (a.share < b.share) {
        // Rounding to whole chunks may cost half a chunk.
        RC_ASSERT(a.lane.WindowBytes() <= b.lane.WindowBytes() + b.lane.chunk_bytes);
      }
    }
  }
}

RC_GTEST_PROP(PlanProperties, LosingReducersOneByOneLeavesAPlan, ()) {
  Plan plan = MakePlan(*AnyCluster())->plan;
  std::vector<uint32_t> left;
  for (uint32_t j = 0; j < plan.reducers; ++j) left.push_back(plan.workers + j);
  while (!left.empty()) {
    const auto at = *rc::gen::inRange<size_t>(0, left.size());
    const uint32_t lost = left[at];
    left.erase(left.begin() + static_cast<ptrdiff_t>(at));
    plan = WithoutReducer(plan, lost);
    RC_ASSERT(CheckPlan(plan).has_value());
    for (uint32_t e = plan.workers; e < plan.endpoints.size(); ++e) {
      if (std::find(left.begin(), left.end(), e) == left.end()) {
        RC_ASSERT(plan.endpoints[e].share == 0u);
      }
    }
  }
}

TEST(PlanTest, WindowsFollowSharesBandwidthAndRoundTrip) {
  const auto even = MakePlan(Equal(8, 0.4, 0, 0));
  EXPECT_NEAR(even->plan.endpoints[0].lane.WindowBytes(), 65536, 16384);
  const auto mixed = MakePlan(Equal(8, 0.4, 4, 0.4));
  const auto& endpoints = mixed->plan.endpoints;
  EXPECT_NEAR(
      static_cast<double>(endpoints[8].lane.WindowBytes()) / endpoints[0].lane.WindowBytes(),
      ShareOf(mixed->plan, 8) / ShareOf(mixed->plan, 0), 0.7);
  Cluster far = Equal(8, 10, 0, 0);
  far.round_trip_s = 20e-3;  // 10 Gbit/s over 20 ms: 25 MB under way
  double under_way = 0;
  const auto far_plan = MakePlan(far);
  for (const Endpoint& e : far_plan->plan.endpoints) under_way += e.lane.WindowBytes();
  const double payload_per_s = far_plan->forecast.bus_gbps * 1e9 / 8;
  EXPECT_GE(under_way, std::min(payload_per_s * far.round_trip_s, 16.0 * 1024 * 1024));
}

TEST(PlanTest, WindowsShrinkAsPeersGrowInNumber) {
  for (const uint32_t n : {2u, 16u, 256u}) {
    const auto made = MakePlan(Equal(n, 10, 0, 0));
    const Lane& lane = made->plan.endpoints[0].lane;
    EXPECT_LE(lane.WindowBytes() * n,
              std::max<uint64_t>(16u << 20, n * kChunkBytesMin * kWindowChunksMin));
  }
}

TEST(PlanTest, WorkersOnOneHostUseSharedMemory) {
  Cluster cluster = Equal(4, 10, 2, 10);
  for (Member& member : cluster.workers) member.host = "only";
  const auto made = MakePlan(cluster);
  EXPECT_EQ(made->forecast.kind, PlanKind::kSharedMemory);
  EXPECT_EQ(made->plan.workers, 1u);
  EXPECT_EQ(made->forecast.group_sizes, std::vector<uint32_t>{4});
}

TEST(PlanTest, OneRankSpeaksForAHost) {
  Cluster cluster = Equal(6, 10, 0, 10);
  cluster.workers[2].host = cluster.workers[0].host;
  cluster.workers[5].host = cluster.workers[4].host;
  const auto made = MakePlan(cluster);
  EXPECT_EQ(made->forecast.speakers, (std::vector<uint32_t>{0, 1, 3, 4}));
  EXPECT_EQ(made->forecast.group_sizes, (std::vector<uint32_t>{2, 1, 1, 2}));
  cluster.one_speaker_per_host = false;
  EXPECT_EQ(MakePlan(cluster)->forecast.worker_gbps, (std::vector<double>{5, 10, 5, 10, 5, 5}));
}

TEST(PlanTest, AReducerBesideAWorkerStaysIdle) {
  Cluster cluster = Equal(4, 10, 2, 10);
  cluster.reducers[0].host = "w1";
  const auto made = MakePlan(cluster);
  EXPECT_EQ(made->plan.endpoints[4].share, 0u);
  EXPECT_GT(made->plan.endpoints[5].share, 0u);
}

TEST(PlanTest, ReducersOnOneHostDivideItsLink) {
  Cluster cluster = Equal(8, 10, 2, 10);
  cluster.reducers[1].host = cluster.reducers[0].host;
  EXPECT_DOUBLE_EQ(MakePlan(cluster)->forecast.bus_gbps,
                   MakePlan(Equal(8, 10, 1, 10))->forecast.bus_gbps);
}

TEST(PlanTest, RefusesNonsenseAndNamesIt) {
  EXPECT_EQ(MakePlan({}).error().code, Code::kInvalidArgument);
  for (const double bad : {0.0, -1.0, double{NAN}, double{INFINITY}}) {
    Cluster cluster = Equal(4, 10, 2, 10);
    cluster.reducers[1].gbps = bad;
    const auto made = MakePlan(cluster);
    ASSERT_FALSE(made);
    EXPECT_NE(made.error().message.find("reducer 1"), std::string::npos) << made.error().message;
  }
  EXPECT_FALSE(MakePlan(Equal(kWorkersMax + 1, 10, 0, 0)));
  Plan plan = MakePlan(Equal(4, 10, 2, 10))->plan;
  plan.endpoints[0].share += 1;
  EXPECT_FALSE(CheckPlan(plan));
}

}  // namespace
}  // namespace muster::collective
