#include "engine/local/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

namespace muster::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Gang MakeGang(const std::string& uid, int replicas, double vcpus, int64_t memory_mb, int gpus = 0,
              const std::string& type = "NVIDIA_TESLA_T4") {
  Gang gang{uid, {}, ""};
  for (int i = 0; i < replicas; ++i) {
    gang.members.push_back(
        {{i == 0 ? 0 : 1, i == 0 ? 0 : i - 1}, vcpus, memory_mb, gpus, gpus > 0 ? type : ""});
  }
  return gang;
}

Limits MakeLimits(double vcpus, int64_t memory_mb, std::vector<int> gpus = {}) {
  return {vcpus, memory_mb, std::move(gpus), 1};
}

std::vector<std::string> AdmitAll(Admission& admission) {
  std::vector<std::string> admitted;
  for (std::string next = admission.Next(); !next.empty(); next = admission.Next()) {
    admission.Admit(next);
    admitted.push_back(next);
  }
  return admitted;
}

TEST(Admission, AdmitsWholeGangsInOrder) {
  Admission admission(MakeLimits(32, 64 * 1024), AcceleratorPolicy::kRunWithout);
  ASSERT_TRUE(admission.Queue(MakeGang("a", 3, 8, 1024)));
  ASSERT_TRUE(admission.Queue(MakeGang("b", 2, 8, 1024)));  // 16 > 8 left
  ASSERT_TRUE(admission.Queue(MakeGang("c", 1, 4, 1024)));  // would fit, but b is first
  EXPECT_THAT(AdmitAll(admission), ElementsAre("a"));
  admission.Release("a");
  EXPECT_THAT(AdmitAll(admission), ElementsAre("b", "c"));
}

TEST(Admission, TellsWhyAJobWaits) {
  Admission admission(MakeLimits(32, 64 * 1024), AcceleratorPolicy::kRunWithout);
  Gang first = MakeGang("1", 3, 8, 1024);
  Gang second = MakeGang("2", 2, 8, 1024);
  second.name = "projects/p/locations/l/customJobs/2";
  ASSERT_TRUE(admission.Queue(first));
  AdmitAll(admission);
  ASSERT_TRUE(admission.Queue(second));
  ASSERT_TRUE(admission.Queue(MakeGang("3", 1, 1, 1024)));
  ASSERT_TRUE(admission.Queue(MakeGang("4", 3, 4, 15 * 1024)));
  EXPECT_EQ(admission.WhyWaiting("1"), "");
  EXPECT_EQ(admission.WhyWaiting("2"), "needs 16 vCPUs and 2 GB; 8 of 32 vCPUs are free");
  EXPECT_EQ(admission.WhyWaiting("3"), "needs 1 vCPU and 1 GB; 1 job is ahead of it: customJobs/2");
  EXPECT_EQ(admission.WhyWaiting("4"),
            "needs 12 vCPUs and 45 GB; 8 of 32 vCPUs are free; 2 jobs are ahead of it: first "
            "customJobs/2");
  EXPECT_EQ(admission.WhyWaiting("unknown"), "");
}

TEST(Admission, AGiantRunsAloneAfterAWarning) {
  Admission admission(MakeLimits(4, 1024), AcceleratorPolicy::kRunWithout);
  ASSERT_TRUE(admission.Queue(MakeGang("small", 1, 1, 10)));
  ASSERT_TRUE(admission.Queue(MakeGang("giant", 2, 96, 10)));
  ASSERT_TRUE(admission.Queue(MakeGang("later", 1, 1, 10)));
  EXPECT_THAT(AdmitAll(admission), ElementsAre("small"));
  EXPECT_THAT(admission.WhyWaiting("giant"),
              HasSubstr("starts when nothing else runs (1 job now)"));
  admission.Release("small");
  ASSERT_EQ(admission.Next(), "giant");
  EXPECT_THAT(admission.Admit("giant").warnings, ElementsAre(HasSubstr("192 vCPUs")));
  EXPECT_EQ(admission.Next(), "");
  admission.Release("giant");
  EXPECT_THAT(AdmitAll(admission), ElementsAre("later"));
}

TEST(Admission, RunsWithoutAcceleratorsThatTheMachineLacks) {
  Admission admission(MakeLimits(64, 65536), AcceleratorPolicy::kRunWithout);
  ASSERT_TRUE(admission.Queue(MakeGang("a", 2, 1, 1, 1)));
  const Admitted admitted = admission.Admit("a");
  EXPECT_THAT(admitted.warnings,
              ElementsAre("The job asks for 2 accelerators (NVIDIA_TESLA_T4), and this machine has "
                          "no GPU: it runs without accelerators."));
  for (const auto& [replica, gpus] : admitted.gpus) EXPECT_THAT(gpus, IsEmpty());
}

TEST(Admission, SharesTooFewGpusEvenly) {
  Admission admission(MakeLimits(64, 65536, {0, 1, 2, 3}), AcceleratorPolicy::kRunWithout);
  ASSERT_TRUE(admission.Queue(MakeGang("a", 3, 1, 1, 8)));
  const Admitted admitted = admission.Admit("a");
  EXPECT_THAT(admitted.warnings, ElementsAre(HasSubstr("with at most 1 GPU a replica")));
  for (const auto& [replica, gpus] : admitted.gpus) EXPECT_THAT(gpus, SizeIs(1));
  EXPECT_THAT(admission.gpus_free(), ElementsAre(3));
}

TEST(Admission, TpusAreNeverThere) {
  Admission admission(MakeLimits(64, 65536, {0, 1}), AcceleratorPolicy::kRunWithout);
  ASSERT_TRUE(admission.Queue(MakeGang("a", 1, 1, 1, 1, "TPU_V3")));
  EXPECT_THAT(admission.Admit("a").warnings, ElementsAre(HasSubstr("no TPU")));
  EXPECT_THAT(admission.gpus_free(), SizeIs(2));
}

TEST(Admission, WhoWaitsForWhatWillNeverBeBlocksNobody) {
  Admission admission(MakeLimits(64, 65536, {0}), AcceleratorPolicy::kWait);
  ASSERT_TRUE(admission.Queue(MakeGang("never", 2, 1, 1, 1)));
  ASSERT_TRUE(admission.Queue(MakeGang("b", 1, 1, 1, 1)));
  EXPECT_THAT(AdmitAll(admission), ElementsAre("b"));
  EXPECT_THAT(admission.WhyWaiting("never"),
              HasSubstr("needs 2 accelerators (NVIDIA_TESLA_T4), but this machine has only 1 GPU"));
  ASSERT_TRUE(admission.Queue(MakeGang("c", 1, 1, 1, 1)));
  EXPECT_EQ(admission.WhyWaiting("c"), "needs 1 vCPU and 1 MB and 1 GPU; 0 of 1 GPU are free");
  EXPECT_FALSE(admission.Queue(MakeGang("never", 1, 1, 1)));
  admission.Release("never");
  EXPECT_EQ(admission.WhyWaiting("never"), "");
}

TEST(Admission, AdoptedGangsCount) {
  Admission admission(MakeLimits(8, 8192, {0, 1}), AcceleratorPolicy::kRunWithout);
  admission.Adopt(MakeGang("old", 1, 8, 10, 1), {{{0, 0}, {1}}});
  ASSERT_TRUE(admission.Queue(MakeGang("new", 1, 1, 10, 1)));
  EXPECT_THAT(admission.gpus_free(), ElementsAre(0));
  EXPECT_EQ(admission.Next(), "");
  admission.Release("old");
  EXPECT_THAT(admission.Admit("new").gpus.at({0, 0}), ElementsAre(0));
}

// A random life: gangs come, are admitted, end.
struct Life {
  Admission admission;
  std::map<std::string, Gang> gangs;
  std::vector<std::string> waiting;  // the model's queue
  std::map<std::string, Admitted> running;
};

Gang RandomGang(const std::string& uid) {
  Gang gang = MakeGang(uid, *rc::gen::inRange(1, 5), *rc::gen::inRange(1, 80) / 8.0,
                       *rc::gen::inRange(1, 5000));
  for (GangMember& member : gang.members) {
    member.accelerator_count = *rc::gen::weightedElement<int>({{4, 0}, {2, 1}, {1, 2}, {1, 4}});
  }
  return gang;
}

double VcpusOf(const Gang& gang) {
  double sum = 0;
  for (const auto& member : gang.members) sum += member.vcpus;
  return sum;
}
int64_t MemoryOf(const Gang& gang) {
  int64_t sum = 0;
  for (const auto& member : gang.members) sum += member.memory_mb;
  return sum;
}
int GpusOf(const Gang& gang) {
  int sum = 0;
  for (const auto& member : gang.members) sum += member.accelerator_count;
  return sum;
}

void CheckCapacity(const Life& life) {
  double vcpus = 0;
  int64_t memory_mb = 0;
  std::multiset<int> gpus;
  for (const auto& [uid, admitted] : life.running) {
    vcpus += VcpusOf(life.gangs.at(uid));
    memory_mb += MemoryOf(life.gangs.at(uid));
    for (const auto& [replica, given] : admitted.gpus) gpus.insert(given.begin(), given.end());
  }
  const Limits& limits = life.admission.limits();
  RC_ASSERT(life.running.size() <= 1 || (vcpus <= limits.vcpus && memory_mb <= limits.memory_mb));
  for (const int gpu : gpus) {
    RC_ASSERT(gpus.count(gpu) == 1u);
    RC_ASSERT(std::ranges::find(limits.gpus, gpu) != limits.gpus.end());
  }
  RC_ASSERT(life.admission.gpus_free().size() == limits.gpus.size() - gpus.size());
  RC_ASSERT(life.admission.vcpus_used() == vcpus);
  RC_ASSERT(life.admission.memory_mb_used() == memory_mb);
}

RC_GTEST_PROP(AdmissionProperty, NeverOverCapacityAlwaysInOrderNobodyStarves, ()) {
  std::vector<int> gpus(size_t(*rc::gen::inRange(0, 5)));
  for (size_t i = 0; i < gpus.size(); ++i) gpus[i] = int(i) * 2;
  const auto policy = *rc::gen::element(AcceleratorPolicy::kRunWithout, AcceleratorPolicy::kWait);
  Life life{Admission(MakeLimits(16, 12000, gpus), policy), {}, {}, {}};
  const auto can_never = [&](const Gang& gang) {
    return policy == AcceleratorPolicy::kWait && GpusOf(gang) > int(gpus.size());
  };
  const auto admit = [&] {
    for (std::string next = life.admission.Next(); !next.empty(); next = life.admission.Next()) {
      RC_ASSERT(!life.waiting.empty());
      RC_ASSERT(next == life.waiting.front());  // strictly first in, first out
      life.waiting.erase(life.waiting.begin());
      life.running[next] = life.admission.Admit(next);
      RC_ASSERT(life.admission.WhyWaiting(next).empty());
      CheckCapacity(life);
    }
  };
  const int steps = *rc::gen::inRange(1, 60);
  for (int step = 0; step < steps; ++step) {
    if (*rc::gen::inRange(0, 3) > 0) {
      const std::string uid = "job" + std::to_string(step);
      life.gangs[uid] = RandomGang(uid);
      RC_ASSERT(life.admission.Queue(life.gangs[uid]).has_value());
      if (!can_never(life.gangs[uid])) life.waiting.push_back(uid);
    } else if (!life.running.empty() && *rc::gen::arbitrary<bool>()) {
      const auto which = size_t(*rc::gen::inRange(0, int(life.running.size())));
      const std::string uid = std::next(life.running.begin(), std::ptrdiff_t(which))->first;
      life.running.erase(uid);
      life.admission.Release(uid);
    } else if (!life.waiting.empty()) {
      const auto which = std::ptrdiff_t(*rc::gen::inRange(0, int(life.waiting.size())));
      life.admission.Release(life.waiting[size_t(which)]);
      life.waiting.erase(life.waiting.begin() + which);
    }
    admit();
    for (const std::string& uid : life.waiting) RC_ASSERT(!life.admission.WhyWaiting(uid).empty());
  }
  // Nobody starves: as others end, each gets its turn.
  while (!life.waiting.empty()) {
    RC_ASSERT(!life.running.empty());
    const std::string uid = life.running.begin()->first;
    life.running.erase(uid);
    life.admission.Release(uid);
    admit();
  }
  for (const auto& [uid, admitted] : life.running) life.admission.Release(uid);
  RC_ASSERT(life.admission.vcpus_used() == 0);
  RC_ASSERT(life.admission.memory_mb_used() == 0);
  RC_ASSERT(life.admission.gpus_free() == gpus);
}

}  // namespace
}  // namespace muster::engine
