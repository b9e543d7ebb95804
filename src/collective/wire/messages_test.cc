#include "collective/wire/messages.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace muster::collective {
namespace {

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

Plan APlan(uint32_t workers, uint32_t reducers) {
  Cluster cluster;
  for (uint32_t i = 0; i < workers; ++i)
    cluster.workers.push_back({fmt::format("w{}", i), 1.0 + i});
  for (uint32_t i = 0; i < reducers; ++i) cluster.reducers.push_back({fmt::format("r{}", i), 3});
  return MakePlan(cluster)->plan;
}

TEST(MessagesTest, ComeBack) {
  const Plan plan = APlan(5, 2);
  EXPECT_EQ(DecodePlan(Bytes(Encode(plan))), plan);
  const AbortMessage abort{Code::kUnavailable, 3, "rank 3 is gone"};
  EXPECT_EQ(DecodeAbort(Bytes(Encode(abort))), abort);
  const LostMessage lost{6, "reset"};
  EXPECT_EQ(DecodeLost(Bytes(Encode(lost))), lost);
  EXPECT_EQ(DecodeFence(Bytes(Encode(FenceMessage{6}))), FenceMessage{6});
  const PrefixMessage prefix{12, {{1, {5, 16}}, {2, {0, 0}}}};
  EXPECT_EQ(DecodePrefix(Bytes(Encode(prefix))), prefix);
  const RecoverMessage recover{
      6, 12, {{1, 4, {{5, 0}, {4, 8}, {5, 0}, {3, 0}, {5, 16}}}}, APlan(5, 2)};
  EXPECT_EQ(DecodeRecover(Bytes(Encode(recover))), recover);
}

TEST(MessagesTest, LongReasonsAreCutOff) {
  const auto abort =
      DecodeAbort(Bytes(Encode(AbortMessage{Code::kUnavailable, 3, std::string(5000, 'x')})));
  ASSERT_TRUE(abort);
  EXPECT_EQ(abort->reason.size(), 1024u);
}

TEST(MessagesTest, TheLargestFitTheirLimit) {
  const Plan plan = APlan(2000, 200);
  RecoverMessage recover{2000, 1, {}, plan};
  for (size_t i = 0; i < kStreamsMax; ++i) {
    recover.streams.push_back({static_cast<uint32_t>(i), 0, std::vector<Progress>(2000)});
  }
  EXPECT_LE(Encode(recover).size(), 4u << 20);
}

// Every truncation and most changes are refused; nothing is accepted that would be written
// differently.
RC_GTEST_PROP(MessagesProperties, DamageIsRefusedOrHarmless, ()) {
  const RecoverMessage recover{4, 12, {{1, 2, {{5, 0}, {4, 8}, {5, 0}}}}, APlan(3, 2)};
  std::string bytes = Encode(recover);
  bytes.resize(*rc::gen::inRange<size_t>(0, bytes.size() + 1));
  const int changes = *rc::gen::inRange(0, 3);
  for (int i = 0; i < changes && !bytes.empty(); ++i) {
    bytes[*rc::gen::inRange<size_t>(0, bytes.size())] = *rc::gen::arbitrary<char>();
  }
  const auto decoded = DecodeRecover(Bytes(bytes));
  if (decoded) RC_ASSERT(Encode(*decoded) == bytes);
  const auto plan = DecodePlan(Bytes(bytes));
  if (plan) RC_ASSERT(Encode(*plan) == bytes);
  const auto prefix = DecodePrefix(Bytes(bytes));
  if (prefix) RC_ASSERT(Encode(*prefix) == bytes);
}

}  // namespace
}  // namespace muster::collective
