#include <gtest/gtest.h>

#include "collective/plan/plan.h"

namespace muster::collective {
namespace {

Cluster EightAndTwo() {
  Cluster cluster;
  for (int i = 0; i < 8; ++i) cluster.workers.push_back({fmt::format("w{}", i), 0.4});
  for (int i = 0; i < 2; ++i) cluster.reducers.push_back({fmt::format("r{}", i), 0.4});
  return cluster;
}

TEST(ExplainTest, MixedPlan) {
  EXPECT_EQ(Explain(*MakePlan(EightAndTwo()), 64u << 20),
            "2 reducer(s) and the workers sum together, for 8 workers.\n"
            "endpoint                   link     sums   moves each way   busy  window\n"
            "worker 0–7           400 Mbit/s    7.9 %        1.474 × S  100 %  5 × 8 KiB\n"
            "reducer 0–1          400 Mbit/s   18.4 %        1.474 × S  100 %  4 × 24 KiB\n"
            "Predicted: 271.4 Mbit/s of payload per second; 64 MiB in 1.98 s.\n"
            "Limit with these links: the same 271.4 Mbit/s; all of them are busy. With enough "
            "reducers: 400 Mbit/s.\n"
            "For comparison: a ring 228.6 Mbit/s (1.19 ×), the reducers alone 100 Mbit/s "
            "(2.71 ×).\n"
            "Payloads up to 1 KiB go whole to one endpoint in turn.\n");
}

std::string FirstLine(const Cluster& cluster) {
  const std::string text = Explain(*MakePlan(cluster), 1 << 20);
  return text.substr(0, text.find('\n'));
}

TEST(ExplainTest, SaysWhenReducersCannotHelp) {
  Cluster cluster = EightAndTwo();
  for (Member& member : cluster.workers) member.host = "one";
  EXPECT_EQ(Explain(*MakePlan(cluster), 1),
            "All 8 workers are on one host: they sum through shared memory, and nothing crosses a "
            "link.\nThe 2 reducer(s) cannot help and stay idle.\n");
  cluster = EightAndTwo();
  for (Member& member : cluster.reducers) member.host = "w3";
  EXPECT_EQ(FirstLine(cluster), "8 workers sum among themselves, as no reducer can help.");
  EXPECT_NE(Explain(*MakePlan(cluster), 1).find("idle: its host has workers"), std::string::npos);
  cluster = EightAndTwo();
  cluster.workers.resize(2);
  EXPECT_NE(FirstLine(cluster).find("reducers cannot help"), std::string::npos);
  cluster.workers.resize(1);
  EXPECT_EQ(FirstLine(cluster), "One worker: there is nothing to exchange.");
}

TEST(ExplainTest, NamesTheLimitOnceItIsReached) {
  Cluster cluster = EightAndTwo();
  for (Member& member : cluster.reducers) member.gbps = 1.6;
  const std::string text = Explain(*MakePlan(cluster), 1 << 20);
  EXPECT_NE(text.find("sum everything for 8 workers"), std::string::npos) << text;
  EXPECT_NE(text.find("More reducers would not help"), std::string::npos) << text;
}

}  // namespace
}  // namespace muster::collective
