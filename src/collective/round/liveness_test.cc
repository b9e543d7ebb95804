#include "collective/round/liveness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::collective {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Instant At(int ms) { return Instant(std::chrono::milliseconds(100'000 + ms)); }

// Ticks every 100 ms up to a time; what was lost on the way.
std::vector<uint16_t> TickTo(Liveness& liveness, int from_ms, int to_ms, uint16_t talker = 99) {
  std::vector<uint16_t> lost;
  for (int ms = from_ms; ms <= to_ms; ms += 100) {
    if (talker != 99) liveness.Heard(talker, At(ms));
    for (const uint16_t peer : liveness.Tick(At(ms)).lost) lost.push_back(peer);
  }
  return lost;
}

TEST(LivenessTest, TheSilentAreLostOnceTheTalkersAreNot) {
  Liveness liveness({}, 3);
  liveness.Watch(0, At(0));
  liveness.Watch(2, At(0));
  EXPECT_THAT(TickTo(liveness, 0, 2900, 0), IsEmpty());
  EXPECT_THAT(TickTo(liveness, 3000, 9000, 0), ElementsAre(2));
}

TEST(LivenessTest, HeartbeatsGoOutAtIntervals) {
  Liveness liveness({}, 2);
  liveness.Watch(1, At(0));
  int beats = 0;
  for (int ms = 0; ms < 5000; ms += 100) {
    liveness.Heard(1, At(ms));
    beats += static_cast<int>(liveness.Tick(At(ms)).beat.size());
  }
  EXPECT_EQ(beats, 9);
}

TEST(LivenessTest, WhoWasStoppedItselfBlamesNobody) {
  Liveness liveness({}, 2);
  liveness.Watch(1, At(0));
  EXPECT_THAT(TickTo(liveness, 0, 500), IsEmpty());
  EXPECT_THAT(liveness.Tick(At(60'000)).lost, IsEmpty());
  EXPECT_THAT(TickTo(liveness, 60'100, 62'900), IsEmpty());
  EXPECT_THAT(TickTo(liveness, 63'000, 63'100), ElementsAre(1));
}

TEST(LivenessTest, ForgottenPeersAreNotLost) {
  Liveness liveness({}, 2);
  liveness.Watch(1, At(0));
  liveness.Forget(1);
  EXPECT_THAT(TickTo(liveness, 0, 9000), IsEmpty());
}

}  // namespace
}  // namespace muster::collective
