// What a worker refuses and how it ends. That it works is the simulation's to show.
#include "collective/round/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "collective/round/recording_output.h"
#include "collective/wire/messages.h"

namespace muster::collective {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr uint32_t kEpoch = 0x10000;
constexpr uint16_t kReducer = 2;

// Two workers; a reducer sums everything.
Plan ReducerAlone() {
  Plan plan{.workers = 2, .reducers = 1, .endpoints = {}};
  plan.endpoints.resize(3);
  plan.endpoints[kReducer] = {kShareOne, {4096, 2}};
  return plan;
}

class WorkerTest : public testing::Test {
 protected:
  WorkerTest() { Make(1); }

  void Make(uint16_t rank, Plan plan = ReducerAlone()) {
    output = {};
    round.emplace(
        WorkerConfig{.epoch = kEpoch, .rank = rank, .plan = std::move(plan), .divisor = 2}, output);
    round->Open();
  }
  Result<uint64_t> StartSum(uint64_t bytes = 400) {
    buffer.resize(bytes);
    return round->Start({.input = buffer.data(), .output = buffer.data(), .bytes = bytes}, {});
  }
  void Deliver(uint16_t from, FrameType type, const std::string& body,
               uint32_t epoch = kEpoch + 1) {
    round->Arrived(
        from,
        {.type = type, .epoch = epoch, .length = static_cast<uint32_t>(body.size()), .rank = from},
        std::as_bytes(std::span(body)), {});
  }
  std::string OverMessage() const { return round->over() ? round->over()->message : "not over"; }

  RecordingOutput output;
  std::optional<WorkerRound> round;
  std::vector<std::byte> buffer;
};

TEST_F(WorkerTest, TellsTheEndpointsThePlanFirst) {
  const auto plans = output.Take(FrameType::kPlan);
  ASSERT_THAT(plans, SizeIs(2));  // the other worker and the reducer
  EXPECT_EQ(*DecodePlan(std::as_bytes(std::span(plans[1].bytes))), ReducerAlone());
}

TEST_F(WorkerTest, KeepsToTheWindow) {
  ASSERT_EQ(StartSum(4096 * 5), 1u);
  EXPECT_THAT(output.Take(FrameType::kContribution), SizeIs(2));
  FrameHeader result{.type = FrameType::kResult,
                     .dtype = DataType::kFloat32,
                     .op = ReduceOp::kSum,
                     .collective = Collective::kAllReduce,
                     .epoch = kEpoch,
                     .sequence = 1,
                     .offset = 0,
                     .total = 4096 * 5,
                     .chunk = 0,
                     .length = 4096,
                     .rank = kReducer};
  EXPECT_EQ(round->Place(kReducer, result), buffer.data());
  round->Arrived(kReducer, result, std::span(buffer).first(4096), {});
  const auto next = output.Take(FrameType::kContribution);
  ASSERT_THAT(next, SizeIs(1));
  EXPECT_EQ(next[0].header.chunk, 2u);
  EXPECT_EQ(next[0].header.offset, 8192u);
}

TEST_F(WorkerTest, MalformedOperationsFailAtOnce) {
  EXPECT_FALSE(StartSum(3));
  EXPECT_FALSE(round->Start({.bytes = 4}, {}));
  EXPECT_FALSE(round->Start({.kind = Collective::kBroadcast, .root = 2}, {}));
  EXPECT_FALSE(round->Start({.kind = Collective::kAllReduce, .root = 0}, {}));
  buffer.resize(12);
  const auto uneven = round->Start({.kind = Collective::kAllGather,
                                    .input = buffer.data(),
                                    .output = buffer.data(),
                                    .bytes = 12},
                                   {});
  ASSERT_FALSE(uneven);
  EXPECT_THAT(uneven.error().message, HasSubstr("all-gather of 12 bytes"));
  EXPECT_TRUE(StartSum(4));
}

TEST_F(WorkerTest, AWorkerAloneIsDoneAtOnce) {
  Plan plan{.workers = 1, .reducers = 0, .endpoints = {{kShareOne, {}}}};
  Make(0, plan);
  for (const Collective kind : kCollectives) {
    const uint64_t bytes = kind == Collective::kBarrier ? 0 : 40'000;
    buffer.assign(bytes, std::byte{7});
    std::vector<std::byte> out(bytes);
    ASSERT_TRUE(round->Start({.kind = kind,
                              .dtype = DataType::kInt8,
                              .root = kind == Collective::kBroadcast ? uint16_t{0} : kNoRank,
                              .input = buffer.data(),
                              .output = out.data(),
                              .bytes = bytes},
                             {}));
    EXPECT_EQ(out, buffer);
  }
  EXPECT_THAT(output.done, SizeIs(std::size(kCollectives)));
}

TEST_F(WorkerTest, ALostWorkerIsNamedToEverybody) {
  ASSERT_TRUE(StartSum());
  output.sent.clear();
  round->PeerLost(0, "connection reset", {});
  EXPECT_EQ(OverMessage(), "rank 0 is lost: connection reset");
  EXPECT_TRUE(output.dropped);
  ASSERT_THAT(output.done, SizeIs(1));
  EXPECT_EQ(output.done[0].second.error().code, Code::kUnavailable);
  const auto aborts = output.Take(FrameType::kAbort);
  ASSERT_THAT(aborts, SizeIs(1));  // the reducer; rank 0 is gone
  EXPECT_EQ(DecodeAbort(std::as_bytes(std::span(aborts[0].bytes)))->rank, 0);
  EXPECT_FALSE(StartSum());
}

TEST_F(WorkerTest, LeavingWhenNothingRunsIsNoFailure) {
  Deliver(0, FrameType::kGoodbye, "");
  round->PeerLost(0, "connection closed", {});
  EXPECT_EQ(OverMessage(), "rank 0 has left");
  EXPECT_TRUE(output.Take(FrameType::kAbort).empty());
  Make(1);
  ASSERT_TRUE(StartSum());
  Deliver(0, FrameType::kGoodbye, "");
  round->PeerLost(0, "connection closed", {});
  EXPECT_THAT(OverMessage(), HasSubstr("rank 0 has left"));
  EXPECT_THAT(output.done, SizeIs(1));
}

TEST_F(WorkerTest, AReducerThatBreaksTheRulesIsLost) {
  ASSERT_TRUE(StartSum());
  FrameHeader result = output.Take(FrameType::kContribution)[0].header;
  result.type = FrameType::kResult;
  result.rank = kReducer;
  result.offset = 64;  // not what was contributed
  result.length -= 64;
  EXPECT_EQ(round->Place(kReducer, result), nullptr);
  EXPECT_FALSE(round->over());
  EXPECT_EQ(output.closed, std::vector<uint16_t>{kReducer});
  const auto lost = output.Take(FrameType::kLost);
  ASSERT_THAT(lost, SizeIs(1));
  EXPECT_EQ(lost[0].peer, 0);
}

TEST_F(WorkerTest, AfterTheFenceItReportsAndWaits) {
  ASSERT_TRUE(StartSum());
  output.sent.clear();
  Deliver(0, FrameType::kFence, Encode(FenceMessage{kReducer}));
  const auto prefix = output.Take(FrameType::kPrefix);
  ASSERT_THAT(prefix, SizeIs(1));
  const auto report = DecodePrefix(std::as_bytes(std::span(prefix[0].bytes)));
  EXPECT_EQ(report, (PrefixMessage{1, {{kEpoch, {0, 0}}}}));
  ASSERT_EQ(StartSum(), 2u);
  EXPECT_TRUE(output.sent.empty());
  RecoverMessage recover{
      kReducer, 1, {{kEpoch, 0, {{0, 0}, {0, 0}}}}, WithoutReducer(ReducerAlone(), kReducer)};
  Deliver(0, FrameType::kRecover, Encode(recover));
  EXPECT_EQ(OverMessage(), "not over");
  EXPECT_EQ(round->epoch(), kEpoch + 1);
  EXPECT_THAT(output.Take(FrameType::kPlan), SizeIs(1));
  EXPECT_FALSE(output.Take(FrameType::kContribution).empty());
}

TEST_F(WorkerTest, ARecoveryThatMakesNoSenseEndsTheEpoch) {
  const RecoverMessage good{
      kReducer, 1, {{kEpoch, 0, {{0, 0}, {0, 0}}}}, WithoutReducer(ReducerAlone(), kReducer)};
  const auto after = [&](auto change) {
    Make(1);
    EXPECT_TRUE(StartSum());
    Deliver(0, FrameType::kFence, Encode(FenceMessage{kReducer}));
    RecoverMessage bad = good;
    change(bad);
    Deliver(0, FrameType::kRecover, Encode(bad));
    return OverMessage();
  };
  EXPECT_EQ(after([](RecoverMessage&) {}), "not over");
  EXPECT_THAT(after([](RecoverMessage& m) { m.started = 0; }), HasSubstr("another loss"));
  EXPECT_THAT(after([](RecoverMessage& m) { m.streams.clear(); }), HasSubstr("other streams"));
  EXPECT_THAT(after([](RecoverMessage& m) { m.streams.push_back(m.streams[0]); }),
              HasSubstr("other streams"));
  EXPECT_THAT(after([](RecoverMessage& m) { m.streams[0].progress[0].chunks = 2; }),
              HasSubstr("does not fit"));
  EXPECT_THAT(after([](RecoverMessage& m) { m.streams[0].progress[0].bytes = 2; }),
              HasSubstr("a part that is none"));
  EXPECT_THAT(after([](RecoverMessage& m) { m.streams[0].progress[0].bytes = 400; }),
              HasSubstr("a part that is none"));
  EXPECT_THAT(after([](RecoverMessage& m) { m.plan = ReducerAlone(); }), HasSubstr("another loss"));
}

TEST_F(WorkerTest, OnlyRankZeroCoordinates) {
  Make(0);
  Deliver(1, FrameType::kFence, Encode(FenceMessage{kReducer}));
  EXPECT_THAT(OverMessage(), HasSubstr("rank 1 is lost: it sent a FENCE frame: not from rank 0"));
  Make(1);
  Deliver(0, FrameType::kPrefix, Encode(PrefixMessage{}));
  EXPECT_THAT(OverMessage(), HasSubstr("for rank 0"));
}

TEST_F(WorkerTest, APassNobodyAskedForEndsTheEpoch) {
  ASSERT_TRUE(StartSum());
  FrameHeader pass = output.Take(FrameType::kContribution)[0].header;
  pass.type = FrameType::kPass;
  pass.rank = 0;
  EXPECT_EQ(round->Place(0, pass), nullptr);
  EXPECT_THAT(OverMessage(), HasSubstr("PASS frame out of turn"));
}

}  // namespace
}  // namespace muster::collective
