#include "collective/round/endpoint.h"

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
constexpr uint16_t kWorkers = 3;
constexpr uint16_t kReducer = 3;
constexpr uint32_t kWindow = 2;

Plan ReducerAlone() {
  Plan plan{.workers = kWorkers, .reducers = 1, .endpoints = {}, .exchange = {4096, 2}};
  plan.endpoints.resize(4);
  plan.endpoints[kReducer] = {kShareOne, {4096, kWindow}};
  return plan;
}

Instant At(int us) { return Instant(std::chrono::microseconds(us)); }

class EndpointTest : public testing::Test {
 protected:
  EndpointTest() { Make({}); }

  void Make(EndpointConfig config) {
    config.id = config.id == 0 ? kReducer : config.id;
    config.workers = kWorkers;
    endpoint.emplace(config, output);
    output.sent.clear();
  }
  void SendPlan(uint16_t from, const Plan& plan, uint32_t epoch = kEpoch) {
    const std::string body = Encode(plan);
    endpoint->Arrived(from, {.type = FrameType::kPlan, .epoch = epoch, .rank = from},
                      std::as_bytes(std::span(body)), At(0));
  }
  void SendPlans() {
    for (uint16_t rank = 0; rank < kWorkers; ++rank) SendPlan(rank, ReducerAlone());
  }
  static FrameHeader Chunk(uint16_t from, uint64_t chunk, uint32_t length = 4) {
    return {.type = FrameType::kContribution,
            .dtype = DataType::kFloat32,
            .op = ReduceOp::kSum,
            .collective = Collective::kAllReduce,
            .epoch = kEpoch,
            .sequence = chunk + 1,
            .offset = 0,
            .total = length,
            .chunk = chunk,
            .length = length,
            .rank = from};
  }
  void Contribute(const FrameHeader& header, float value, int at_us = 0) {
    std::byte* const place = endpoint->Place(header.rank, header);
    if (place == nullptr) return;
    std::memcpy(place, &value, sizeof(value));
    endpoint->Arrived(header.rank, header, {place, header.length}, At(at_us));
  }
  // The reason of the ABORT that every rank has got.
  std::string Aborted() {
    const auto aborts = output.Take(FrameType::kAbort);
    if (aborts.size() != kWorkers) return fmt::format("{} ABORTs", aborts.size());
    EXPECT_TRUE(endpoint->over());
    return DecodeAbort(std::as_bytes(std::span(aborts[0].bytes)))->reason;
  }

  RecordingOutput output;
  std::optional<EndpointRound> endpoint;
};

TEST_F(EndpointTest, SumsInTheOrderOfRanksWhoeverComesFirst) {
  SendPlans();
  Contribute(Chunk(2, 0), 1.0f);
  Contribute(Chunk(1, 0), -1e30f);
  EXPECT_TRUE(output.sent.empty());
  Contribute(Chunk(0, 0), 1e30f);
  const auto results = output.Take(FrameType::kResult);
  ASSERT_THAT(results, SizeIs(kWorkers));
  for (uint16_t rank = 0; rank < kWorkers; ++rank) {
    EXPECT_EQ(results[rank].peer, rank);
    EXPECT_EQ(results[rank].header.rank, kReducer);
    float sum;
    std::memcpy(&sum, results[rank].bytes.data(), 4);
    EXPECT_EQ(sum, 1.0f);  // (1e30 − 1e30) + 1
  }
}

TEST_F(EndpointTest, KnowsWhoIsLate) {
  SendPlans();
  for (uint64_t chunk = 0; chunk < 2; ++chunk) {
    Contribute(Chunk(0, chunk), 1, 100);
    Contribute(Chunk(2, chunk), 1, 130);
    Contribute(Chunk(1, chunk), 1, 600);
  }
  const auto& statistics = endpoint->statistics();
  EXPECT_EQ(statistics[0].late, std::chrono::microseconds(0));
  EXPECT_EQ(statistics[1].late, std::chrono::microseconds(1000));
  EXPECT_EQ(statistics[2].late, std::chrono::microseconds(60));
  EXPECT_EQ(statistics[1].last, 2u);
  EXPECT_EQ(statistics[0].last, 0u);
  EXPECT_EQ(statistics[0].bytes, 8u);
}

TEST_F(EndpointTest, NobodyRunsAheadOfTheWindow) {
  SendPlans();
  for (uint64_t chunk = 0; chunk < kWindow; ++chunk) Contribute(Chunk(0, chunk), 1);
  EXPECT_FALSE(endpoint->over());
  Contribute(Chunk(0, kWindow), 1);
  EXPECT_THAT(Aborted(), HasSubstr("rank 0 contributes chunk 2 where 2 was due, 2 of them"));
}

TEST_F(EndpointTest, ChunksComeInOrder) {
  SendPlans();
  Contribute(Chunk(1, 1), 1);
  EXPECT_THAT(Aborted(), HasSubstr("rank 1 contributes chunk 1 where 0 was due"));
}

TEST_F(EndpointTest, RanksThatDisagreeAreBothNamed) {
  const auto differ = [&](auto change) {
    Make({});
    SendPlans();
    Contribute(Chunk(0, 0), 1);
    FrameHeader other = Chunk(2, 0);
    change(other);
    Contribute(other, 1);
    return Aborted();
  };
  EXPECT_THAT(differ([](FrameHeader& h) { h.op = ReduceOp::kMax; }),
              testing::AllOf(HasSubstr("rank 0: all-reduce of 4 bytes of float32 (sum)"),
                             HasSubstr("rank 2: all-reduce of 4 bytes of float32 (maximum)")));
  EXPECT_THAT(differ([](FrameHeader& h) { h.total = 8; }), HasSubstr("8 bytes"));
  EXPECT_THAT(differ([](FrameHeader& h) { h.dtype = DataType::kInt32; }), HasSubstr("int32"));
  EXPECT_THAT(differ([](FrameHeader& h) { h.sequence = 9; }), HasSubstr("operation 9"));
}

TEST_F(EndpointTest, TwoPayloadsUnderWayAtOnceAreStillCompared) {
  SendPlans();
  FrameHeader other = Chunk(1, 0);
  other.op = ReduceOp::kMin;
  ASSERT_NE(endpoint->Place(0, Chunk(0, 0)), nullptr);
  ASSERT_NE(endpoint->Place(1, other), nullptr);
  const std::byte bytes[4] = {};
  endpoint->Arrived(0, Chunk(0, 0), bytes, At(0));
  endpoint->Arrived(1, other, bytes, At(0));
  EXPECT_THAT(Aborted(), HasSubstr("the ranks disagree"));
}

TEST_F(EndpointTest, PlansComeFirstAndAreAllTheSame) {
  Contribute(Chunk(1, 0), 1);
  EXPECT_THAT(Aborted(), HasSubstr("rank 1 contributes to epoch 65536 before its plan"));
  Make({});
  SendPlan(0, ReducerAlone());
  Contribute(Chunk(1, 0), 1);
  EXPECT_THAT(Aborted(), HasSubstr("rank 1 contributes before its plan"));
  Make({});
  Plan other = ReducerAlone();
  other.whole_bytes = 77;
  SendPlan(0, ReducerAlone());
  SendPlan(2, other);
  EXPECT_THAT(Aborted(), HasSubstr("rank 2 has another plan"));
  Make({});
  other = ReducerAlone();
  other.workers = 2;
  other.reducers = 2;
  SendPlan(0, other);
  EXPECT_THAT(Aborted(), HasSubstr("plan for 2 workers"));
}

TEST_F(EndpointTest, MemoryIsWhatThePlanSaysAndNotMoreThanGranted) {
  SendPlans();
  EXPECT_EQ(endpoint->memory_bytes(), 0u);
  Contribute(Chunk(0, 0), 1);
  EXPECT_EQ(endpoint->memory_bytes(), (kWorkers + 1) * kWindow * 4096u);
  Make({.memory_bytes_max = (kWorkers + 1) * kWindow * 4096u - 1});
  SendPlans();
  Contribute(Chunk(0, 0), 1);
  EXPECT_THAT(Aborted(), HasSubstr("this endpoint grants 32767"));
}

TEST_F(EndpointTest, RulesOfChunks) {
  const auto refused = [&](FrameHeader header) {
    Make({});
    SendPlans();
    EXPECT_EQ(endpoint->Place(header.rank, header), nullptr);
    return Aborted();
  };
  EXPECT_THAT(refused(Chunk(0, 0, 8192)), HasSubstr("8192 bytes at once; the plan says 4096"));
  FrameHeader header = Chunk(0, 0);
  header.root = 1;
  EXPECT_THAT(refused(header), HasSubstr("with root 1"));
  header = Chunk(0, 0);
  header.flags = kFlagEmpty;
  EXPECT_THAT(refused(header), HasSubstr("without data"));
  header = Chunk(0, 0);
  header.collective = Collective::kBroadcast;
  header.root = 1;
  EXPECT_THAT(refused(header), HasSubstr("with data"));
  header = Chunk(0, 0);
  header.collective = Collective::kAllGather;
  header.root = 0;
  EXPECT_THAT(refused(header), HasSubstr("sends part of an operation (all-gather) to a reducer"));
}

TEST_F(EndpointTest, ALostRankEndsTheGroupHere) {
  SendPlans();
  endpoint->PeerLost(1, "connection reset");
  const auto lost = output.Take(FrameType::kLost);
  ASSERT_THAT(lost, SizeIs(2));
  EXPECT_EQ(lost[0].peer, 0);
  EXPECT_EQ(lost[1].peer, 2);
  EXPECT_EQ(DecodeLost(std::as_bytes(std::span(lost[0].bytes)))->peer, 1);
  EXPECT_EQ(endpoint->Place(0, Chunk(0, 0)), nullptr);
  EXPECT_TRUE(output.sent.empty());
}

TEST_F(EndpointTest, OldEpochsAreForgottenOnceTheyAreIdle) {
  SendPlans();
  Contribute(Chunk(0, 0), 1);
  for (uint32_t epoch = kEpoch + 1; epoch < kEpoch + 16; ++epoch) {
    SendPlan(0, ReducerAlone(), epoch);
  }
  EXPECT_FALSE(endpoint->over());
  // The oldest still has a chunk under way: it cannot go.
  SendPlan(0, ReducerAlone(), kEpoch + 16);
  EXPECT_THAT(Aborted(), HasSubstr("reducers were lost within one operation"));
  Make({});
  SendPlans();
  for (uint16_t rank = 0; rank < kWorkers; ++rank) Contribute(Chunk(rank, 0), 1);
  for (uint32_t epoch = kEpoch + 1; epoch <= kEpoch + 16; ++epoch) {
    SendPlan(0, ReducerAlone(), epoch);
  }
  EXPECT_FALSE(endpoint->over());
  EXPECT_EQ(endpoint->memory_bytes(), 0u);
  EXPECT_EQ(endpoint->Place(0, Chunk(0, 1)), nullptr);  // late, and dropped without harm
  EXPECT_FALSE(endpoint->over());
}

}  // namespace
}  // namespace muster::collective
