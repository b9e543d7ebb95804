#include "collective/plan/sizing.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace muster::collective {
namespace {

TEST(SizingTest, KnownAnswers) {
  EXPECT_EQ(ReducersNeeded({8, 100, 32}), 25u);
  EXPECT_EQ(ReducersNeeded({5, 100, 32}), 16u);
  EXPECT_EQ(ReducersNeeded({8, 100, 100}), 8u);
  EXPECT_EQ(ReducersNeeded({3, 0.3, 0.1}), 9u);  // 9.000000000000002 in floating point
  EXPECT_EQ(ReducersNeeded({2, 100, 32}), 0u);
  EXPECT_EQ(ReducersNeeded({1, 100, 32}), 0u);
}

RC_GTEST_PROP(SizingProperties, TheAnswerIsEnoughAndOneFewerIsNot, ()) {
  const SizingQuestion question{*rc::gen::inRange<uint32_t>(3, 100),
                                *rc::gen::inRange(1, 400) * 0.25, *rc::gen::inRange(1, 400) * 0.25};
  const auto rows = SizingTable(question);
  RC_ASSERT(rows.size() == ReducersNeeded(question) + 1);
  RC_ASSERT(rows.back().slowdown < 1 + 1e-9);
  RC_ASSERT(rows[rows.size() - 2].slowdown > 1 + 1e-9);
  for (size_t i = 1; i < rows.size(); ++i) RC_ASSERT(rows[i].bus_gbps > rows[i - 1].bus_gbps);
  RC_ASSERT(std::abs(rows.front().over_ring - 1) < 1e-9);
}

TEST(SizingTest, SaysItInWords) {
  const auto text = ExplainSizing({8, 100, 32});
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("25 reducers of 32 Gbit/s"), std::string::npos) << *text;
  EXPECT_NE(text->find("1.75 ×"), std::string::npos) << *text;  // what none costs
}

TEST(SizingTest, RefusesNonsense) {
  EXPECT_FALSE(ExplainSizing({0, 100, 32}));
  EXPECT_FALSE(ExplainSizing({8, 0, 32}));
  EXPECT_FALSE(ExplainSizing({8, 100, -1}));
  EXPECT_FALSE(ExplainSizing({8, 100, 1e-9}));
  EXPECT_TRUE(ExplainSizing({2, 100, 32}));
}

}  // namespace
}  // namespace muster::collective
