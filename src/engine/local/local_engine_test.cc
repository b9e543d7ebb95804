#include "engine/local/local_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/v1/agent.pb.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "base/file.h"
#include "engine/local/engine_fixture.h"
#include "engine/local/process_tree.h"

namespace muster::engine {
namespace {

namespace fs = std::filesystem;
using muster::v1::LaunchSpec;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

TEST_F(LocalEngineTest, AnAttemptRunsReportsAndLeavesNothing) {
  Open();
  const Grant grant = Admit(GangOf("1", 2));
  EXPECT_THAT(grant.places, SizeIs(2));
  const LaunchSpec spec = SpecOf("1", 0, {"exit", "7"});
  ASSERT_TRUE(engine_->Start(spec));
  EXPECT_EQ(engine_->ReadReport(spec).error().code, Code::kNotFound);
  ASSERT_TRUE(AwaitEnded());
  EXPECT_THAT(listener_.ended, ElementsAre(KeyOf(spec)));
  const auto report = engine_->ReadReport(spec);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->status(), 7);
  struct stat launch{};
  ASSERT_EQ(::stat(FilesOf(spec).launch().c_str(), &launch), 0);
  EXPECT_EQ(launch.st_mode & 0777, 0600u);
  engine_->Release("1");
  ExpectClean("1");
}

TEST_F(LocalEngineTest, StartIsIdempotentAndNeedsAPlace) {
  Open();
  const LaunchSpec spec = SpecOf("1", 0, {"run", "echo x >> ran; sleep 600"});
  EXPECT_EQ(engine_->Start(spec).error().code, Code::kFailedPrecondition);
  Admit(GangOf("1", 1));
  ASSERT_TRUE(engine_->Start(spec));
  ASSERT_TRUE(engine_->Start(spec));
  ASSERT_TRUE(AwaitRunning(spec));
  ASSERT_TRUE(engine_->Start(spec));
  engine_->Stop(KeyOf(spec));
  ASSERT_TRUE(AwaitEnded());
  EXPECT_EQ(engine_->ReadReport(spec)->cause(), muster::v1::Exited::STOPPED);
  // What has ended is not run again: only its end is told again.
  ASSERT_TRUE(engine_->Start(spec));
  ASSERT_TRUE(AwaitEnded(2));
  EXPECT_EQ(ReadFile(FilesOf(spec).directory() / "ran").value_or(""), "x\n");
  engine_->Release("1");
  ExpectClean("1");
}

TEST_F(LocalEngineTest, AnAgentThatDoesNotStopIsKilledWithItsTree) {
  Open();
  Admit(GangOf("1", 1));
  const LaunchSpec spec = SpecOf("1", 0, {"stubborn", "trap '' TERM; sleep 600 & sleep 600"});
  ASSERT_TRUE(engine_->Start(spec));
  ASSERT_TRUE(AwaitRunning(spec, 3));
  engine_->Stop(KeyOf(spec));
  engine_->Stop(KeyOf(spec));
  ASSERT_TRUE(AwaitEnded());
  EXPECT_EQ(engine_->ReadReport(spec).error().code, Code::kNotFound);
  EXPECT_THAT(FindMarkedProcesses(MarkerOf(spec)), IsEmpty());
  engine_->Release("1");
  ExpectClean("1");
}

class KilledAgentTest : public LocalEngineTest, public ::testing::WithParamInterface<bool> {};

TEST_P(KilledAgentTest, ItsTreeIsGoneBeforeItsEndIsTold) {
  options_.cgroups.enabled = GetParam();
  Open();
  Admit(GangOf("1", 2));
  const LaunchSpec spec =
      SpecOf("1", 0, {"run", "sleep 600 & (setsid sleep 600 &); touch work/x; sleep 600"});
  const LaunchSpec other = SpecOf("1", 1, {"run", "sleep 600"});
  ASSERT_TRUE(engine_->Start(spec));
  ASSERT_TRUE(engine_->Start(other));
  ASSERT_TRUE(AwaitRunning(spec, 4));
  ASSERT_TRUE(AwaitRunning(other));
  ::kill(AgentPid(spec), SIGKILL);
  ASSERT_TRUE(AwaitEnded());
  EXPECT_THAT(listener_.ended, ElementsAre(KeyOf(spec)));
  EXPECT_THAT(FindMarkedProcesses(MarkerOf(spec)), IsEmpty());
  EXPECT_FALSE(fs::exists(FilesOf(spec).work()));
  EXPECT_FALSE(fs::exists(FilesOf(spec).tmp()));
  EXPECT_TRUE(fs::exists(FilesOf(spec).launch()));
  EXPECT_THAT(FindMarkedProcesses(MarkerOf(other)), Not(IsEmpty()));  // was not touched
  engine_->Stop(KeyOf(other));
  ASSERT_TRUE(AwaitEnded(2));
  engine_->Release("1");
  ExpectClean("1");
}
INSTANTIATE_TEST_SUITE_P(Cgroups, KilledAgentTest, ::testing::Bool());

TEST_F(LocalEngineTest, ARunningJobIsTakenBack) {
  Open();
  const Gang gang = GangOf("1", 2);
  const Grant grant = Admit(gang);
  const LaunchSpec spec = SpecOf("1", 1, {"run", "sleep 600"});
  ASSERT_TRUE(engine_->Start(spec));
  ASSERT_TRUE(AwaitRunning(spec));
  const int port = grant.places.at({1, 0}).port;
  Crash();
  EXPECT_FALSE(PortPool::Take(port).fd);  // its agent holds the lease
  EXPECT_FALSE(PortPool::Take(grant.master_port).fd);
  EXPECT_TRUE(PortPool::Take(grant.places.at({0, 0}).port).fd);  // has no agent

  Open();
  engine_->Adopt(gang, grant);
  EXPECT_EQ(engine_->AdoptAttempt(spec), AttemptFate::kRunning);
  EXPECT_EQ(engine_->AdoptAttempt(spec), AttemptFate::kRunning);
  for (const auto& [replica, place] : grant.places) EXPECT_FALSE(PortPool::Take(place.port).fd);
  engine_->Stop(KeyOf(spec));
  ASSERT_TRUE(AwaitEnded());
  EXPECT_THAT(listener_.ended, ElementsAre(KeyOf(spec)));
  EXPECT_EQ(engine_->ReadReport(spec)->cause(), muster::v1::Exited::STOPPED);
  EXPECT_FALSE(PortPool::Take(port).fd);  // the agent has ended; the job has not
  engine_->Release("1");
  EXPECT_TRUE(PortPool::Take(port).fd);
  ExpectClean("1");
}

TEST_F(LocalEngineTest, TheFatesOfWhatEndedMeanwhile) {
  Open();
  const Gang gang = GangOf("1", 5);
  const Grant grant = Admit(gang);
  const LaunchSpec never = SpecOf("1", 0, {"exit", "0"});
  const LaunchSpec reported = SpecOf("1", 1, {"exit", "0"});
  const LaunchSpec lost = SpecOf("1", 2, {"run", "sleep 600 & sleep 600"});
  const LaunchSpec host_lost = SpecOf("1", 3, {"exit", "0"});
  ASSERT_TRUE(engine_->Start(reported));
  ASSERT_TRUE(engine_->Start(lost));
  ASSERT_TRUE(AwaitRunning(lost, 3));
  ASSERT_TRUE(AwaitEnded());
  Crash();
  const int agent = AgentPid(lost);
  ::kill(agent, SIGKILL);
  ::waitpid(agent, nullptr, 0);
  fs::create_directories(host_lost.attempt_directory());
  ASSERT_TRUE(FilesOf(host_lost).WriteAgent({agent, 1, "another-boot"}));

  Open();
  engine_->Adopt(gang, grant);
  EXPECT_EQ(engine_->AdoptAttempt(never), AttemptFate::kNeverLaunched);
  EXPECT_EQ(engine_->AdoptAttempt(reported), AttemptFate::kRunning);
  EXPECT_EQ(engine_->AdoptAttempt(lost), AttemptFate::kRunning);
  EXPECT_EQ(engine_->AdoptAttempt(host_lost), AttemptFate::kHostLost);
  EXPECT_EQ(engine_->AdoptAttempt(host_lost), AttemptFate::kHostLost);
  EXPECT_THAT(listener_.ended, IsEmpty());
  ASSERT_TRUE(AwaitEnded(2));
  EXPECT_THAT(listener_.ended, UnorderedElementsAre(KeyOf(reported), KeyOf(lost)));
  // Their ends are told after the clearing: musterd may forget them now.
  EXPECT_THAT(FindMarkedProcesses(MarkerOf(lost)), IsEmpty());
  EXPECT_FALSE(fs::exists(FilesOf(lost).work()));
  EXPECT_FALSE(fs::exists(FilesOf(lost).tmp()));
  EXPECT_TRUE(engine_->ReadReport(reported));
  EXPECT_EQ(engine_->ReadReport(lost).error().code, Code::kNotFound);
  ASSERT_TRUE(engine_->Start(never));
  ASSERT_TRUE(AwaitEnded(3));
  EXPECT_EQ(listener_.ended.back(), KeyOf(never));
  engine_->Release("1");
  engine_.reset();  // waits for what is removed in the background
  ExpectClean("1");
}

// agent.json is not synced: a power cut may have taken it, or left it empty.
TEST_F(LocalEngineTest, AnAttemptOfAnEarlierBootIsLostWhateverItsFilesSay) {
  Open();
  const Gang gang = GangOf("1", 4);
  const Grant grant = Admit(gang);
  Crash();
  Open();
  engine_->Adopt(gang, grant);
  LaunchSpec missing = SpecOf("1", 0, {"exit", "0"});
  LaunchSpec empty = SpecOf("1", 1, {"exit", "0"});
  LaunchSpec reported = SpecOf("1", 2, {"exit", "0"});
  LaunchSpec now = SpecOf("1", 3, {"exit", "0"});
  for (LaunchSpec* spec : {&missing, &empty, &reported}) {
    spec->set_boot_id("an-earlier-boot");
    fs::create_directories(FilesOf(*spec).work() / "left");
  }
  ASSERT_TRUE(WriteFileAtomic(FilesOf(empty).agent(), ""));
  muster::v1::ReportRequest report;
  report.mutable_exited()->set_cause(muster::v1::Exited::EXITED);
  ASSERT_TRUE(FilesOf(reported).WriteReport(report));
  now.set_boot_id(*attempt::ThisBootId());

  EXPECT_EQ(engine_->AdoptAttempt(missing), AttemptFate::kHostLost);
  EXPECT_EQ(engine_->AdoptAttempt(missing), AttemptFate::kHostLost);
  EXPECT_EQ(engine_->AdoptAttempt(empty), AttemptFate::kHostLost);
  EXPECT_EQ(engine_->AdoptAttempt(reported), AttemptFate::kRunning);  // its end is to be told
  EXPECT_EQ(engine_->AdoptAttempt(now), AttemptFate::kNeverLaunched);
  ASSERT_TRUE(AwaitEnded());
  EXPECT_THAT(listener_.ended, ElementsAre(KeyOf(reported)));
  engine_->Release("1");
  ASSERT_TRUE(Await([&] { return PortPool::Take(grant.master_port).fd; }));
  ExpectClean("1");
}

TEST_F(LocalEngineTest, CgroupsOfJobsThatNobodyKnowsAnyMoreAreRemoved) {
  Open();
  if (cgroup_bases_.empty()) GTEST_SKIP() << "no cgroup is writable";
  for (const fs::path& base : cgroup_bases_) {
    EXPECT_FALSE(fs::exists(base)) << "idle, it has none";
    fs::create_directories(base / "forgotten" / "workerpool0-0-0");
  }
  Admit(GangOf("1", 1));
  const LaunchSpec spec = SpecOf("1", 0, {"exit", "0"});
  ASSERT_TRUE(engine_->Start(spec));
  ASSERT_TRUE(AwaitEnded());
  engine_->Release("1");
  for (const fs::path& base : cgroup_bases_) EXPECT_FALSE(fs::exists(base)) << base;

  // When it ends, also those of a job that is not released but has nothing running.
  Admit(GangOf("2", 1));
  const LaunchSpec second = SpecOf("2", 0, {"exit", "0"});
  ASSERT_TRUE(engine_->Start(second));
  ASSERT_TRUE(AwaitEnded(2));
  for (const fs::path& base : cgroup_bases_) fs::create_directories(base / "forgotten");
  engine_.reset();
  for (const fs::path& base : cgroup_bases_) EXPECT_FALSE(fs::exists(base)) << base;
}

TEST_F(LocalEngineTest, CgroupsInWhichSomethingRunsStayWhenMusterdEnds) {
  Open();
  if (cgroup_bases_.empty()) GTEST_SKIP() << "no cgroup is writable";
  const Gang gang = GangOf("1", 1);
  const Grant grant = Admit(gang);
  const LaunchSpec spec = SpecOf("1", 0, {"run", "sleep 600"});
  ASSERT_TRUE(engine_->Start(spec));
  ASSERT_TRUE(AwaitRunning(spec));
  Crash();
  for (const fs::path& base : cgroup_bases_) EXPECT_TRUE(fs::exists(base / "1")) << base;
  Open();
  engine_->Adopt(gang, grant);
  ASSERT_EQ(engine_->AdoptAttempt(spec), AttemptFate::kRunning);
  engine_->Stop(KeyOf(spec));
  ASSERT_TRUE(AwaitEnded());
  engine_->Release("1");
  for (const fs::path& base : cgroup_bases_) EXPECT_FALSE(fs::exists(base)) << base;
}

// musterd dies right after it started an agent, which is not so far as to take its attempt.
TEST_F(LocalEngineTest, NoAttemptIsRunTwiceByAnAgentThatWasSlow) {
  Open();
  const Gang gang = GangOf("1", 1);
  const Grant grant = Admit(gang);
  const LaunchSpec slow = SpecOf("1", 0, {"late", "150", "echo x >> ran; sleep 0.3"});
  ASSERT_TRUE(engine_->Start(slow));
  ASSERT_TRUE(Await([&] { return fs::exists(FilesOf(slow).agent_log()); }));
  Crash();
  Open();
  engine_->Adopt(gang, grant);
  if (engine_->AdoptAttempt(slow) == AttemptFate::kNeverLaunched) {
    EXPECT_FALSE(fs::exists(FilesOf(slow).launch()));
    ASSERT_TRUE(engine_->Start(SpecOf("1", 0, {"late", "150", "echo x >> ran; sleep 0.3"})));
  }
  ASSERT_TRUE(AwaitEnded());
  EXPECT_EQ(ReadFile(FilesOf(slow).directory() / "ran").value_or(""), "x\n");
  EXPECT_EQ(engine_->ReadReport(slow)->status(), 0);
  engine_->Release("1");
  ExpectClean("1");
}

TEST_F(LocalEngineTest, PortsAreUniqueAmongManyJobs) {
  Open();
  std::set<int> ports;
  constexpr int kJobs = 50;
  for (int i = 0; i < kJobs; ++i) ASSERT_TRUE(engine_->Request(GangOf(std::to_string(i), 4)));
  ASSERT_TRUE(Await([&] { return listener_.grants.size() == kJobs; }));
  for (const auto& [uid, grant] : listener_.grants) {
    EXPECT_TRUE(ports.insert(grant.master_port).second);
    for (const auto& [replica, place] : grant.places) {
      EXPECT_EQ(place.host, "127.0.0.1");
      EXPECT_TRUE(ports.insert(place.port).second) << place.port;
    }
  }
  for (const int port : ports) EXPECT_FALSE(PortPool::Take(port).fd);
  for (int i = 0; i < kJobs; ++i) engine_->Release(std::to_string(i));
  for (const int port : ports) EXPECT_TRUE(PortPool::Take(port).fd);
}

TEST_F(LocalEngineTest, AJobWaitsForPortsAndSaysSo) {
  options_.ports = {61450, 61452};
  const PortLease theirs = PortPool::Take(61451);
  Open();
  EXPECT_EQ(engine_->Request(GangOf("big", 3)).error().code, Code::kFailedPrecondition);
  ASSERT_TRUE(engine_->Request(GangOf("1", 1)));
  ASSERT_TRUE(Await([&] { return listener_.grants.contains("1"); }));
  ASSERT_TRUE(engine_->Request(GangOf("2", 1)));
  ASSERT_TRUE(Await([&] {
    return engine_->WhyWaiting("2") ==
           "needs 1 vCPU and 512 MB; needs 2 free ports, and 61450–61452 has 0";
  })) << engine_->WhyWaiting("2");
  engine_->Release("1");
  EXPECT_TRUE(Await([&] { return listener_.grants.contains("2"); }));
  EXPECT_EQ(engine_->WhyWaiting("2"), "");
}

TEST_F(LocalEngineTest, GpusAreHandedOutExclusively) {
  options_.gpus = 3;
  Open();
  EXPECT_THAT(Admit(GangOf("1", 2, 1)).places.at({1, 0}).gpus, ElementsAre(1));
  ASSERT_TRUE(engine_->Request(GangOf("2", 1, 2)));
  ASSERT_TRUE(Await([&] { return !engine_->WhyWaiting("2").empty(); }));
  EXPECT_EQ(engine_->WhyWaiting("2"), "needs 1 vCPU and 512 MB and 2 GPUs; 1 of 3 GPUs are free");
  engine_->Release("1");
  ASSERT_TRUE(Await([&] { return listener_.grants.contains("2"); }));
  EXPECT_THAT(listener_.grants["2"].places.at({0, 0}).gpus, ElementsAre(0, 1));
  EXPECT_THAT(Admit(GangOf("3", 1, 1)).warnings, IsEmpty());
}

TEST_F(LocalEngineTest, AGangThatIsReleasedInTheQueueIsNeverAdmitted) {
  Open();
  ASSERT_TRUE(engine_->Request(GangOf("1", 1)));
  engine_->Release("1");
  Admit(GangOf("2", 1));
  EXPECT_FALSE(listener_.grants.contains("1"));
  EXPECT_EQ(engine_->Request(GangOf("", 1)).error().code, Code::kInvalidArgument);
  EXPECT_EQ(engine_->Request(GangOf("a/b", 1)).error().code, Code::kInvalidArgument);
  EXPECT_EQ(engine_->Request(GangOf("3", 0)).error().code, Code::kInvalidArgument);
}

TEST_F(LocalEngineTest, ReleaseEndsWhatStillRuns) {
  Open();
  const Grant grant = Admit(GangOf("1", 2));
  const LaunchSpec spec = SpecOf("1", 0, {"run", "sleep 600"});
  ASSERT_TRUE(engine_->Start(spec));
  ASSERT_TRUE(AwaitRunning(spec));
  engine_->Release("1");
  EXPECT_FALSE(PortPool::Take(grant.master_port).fd);  // not before the last process is gone
  ASSERT_TRUE(AwaitEnded());
  EXPECT_TRUE(PortPool::Take(grant.master_port).fd);
  ExpectClean("1");
}

TEST_F(LocalEngineTest, AMissingAgentIsAClearError) {
  options_.agent_binary = directory_ / "no-agent";
  Open();
  Admit(GangOf("1", 1));
  const Status started = engine_->Start(SpecOf("1", 0, {"exit", "0"}));
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message, HasSubstr("no-agent"));
}

TEST_F(LocalEngineTest, AgentsInheritNothingElse) {
  options_.private_network = false;
  Open();
  Admit(GangOf("1", 1));
  const UniqueFd careless(::dup(1));  // without O_CLOEXEC
  const LaunchSpec spec = SpecOf("1", 0, {"descriptors"});
  ASSERT_TRUE(engine_->Start(spec));
  ASSERT_TRUE(AwaitEnded());
  const bool user = FilesOf(spec).ReadLaunch()->isolation().user_namespace_fd() > 0;
  EXPECT_EQ(ReadFile(FilesOf(spec).directory() / "descriptors").value_or(""),
            user ? "0 1 2 201 202 203 " : "0 1 2 202 203 ");
}

TEST_F(LocalEngineTest, APrivateNetworkIsTheJobsOwnAndOutlivesMusterd) {
  options_.private_network = true;
  Open();
  if (!FindNamespaceAbilities().network) {
    const Grant grant = Admit(GangOf("1", 1));
    EXPECT_FALSE(grant.private_network);
    EXPECT_THAT(grant.warnings, ElementsAre(HasSubstr("private network")));
    GTEST_SKIP() << "not permitted here; the warning was tested";
  }
  const Gang gang = GangOf("1", 3);
  const Grant grant = Admit(gang);
  EXPECT_TRUE(grant.private_network);
  EXPECT_THAT(grant.warnings, IsEmpty());
  EXPECT_EQ(grant.places.at({0, 0}).port, 2222);
  EXPECT_EQ(grant.places.at({1, 0}).port, 2223);
  EXPECT_EQ(grant.places.at({1, 1}).port, 2224);
  EXPECT_EQ(grant.master_port, 2225);
  const Grant second = Admit(GangOf("2", 3));  // has the same numbers in another network
  EXPECT_EQ(second.master_port, 2225);

  const std::string show =
      "readlink /proc/self/ns/net > net; tail -n +3 /proc/self/net/dev | cut -d: -f1 > dev; sleep "
      "600";
  const LaunchSpec one = SpecOf("1", 0, {"run", show});
  const LaunchSpec two = SpecOf("1", 1, {"run", show});
  const LaunchSpec apart = SpecOf("2", 0, {"run", show});
  const auto shown = [&](const LaunchSpec& spec, const char* file) {
    return ReadFile(FilesOf(spec).directory() / file).value_or("");
  };
  const auto is_shown = [&](const LaunchSpec& spec) {
    return Await([&] { return !shown(spec, "dev").empty(); });
  };
  ASSERT_TRUE(engine_->Start(one));
  ASSERT_TRUE(engine_->Start(apart));
  ASSERT_TRUE(is_shown(one));
  ASSERT_TRUE(is_shown(apart));
  EXPECT_EQ(shown(one, "dev"), "    lo\n");
  EXPECT_NE(shown(one, "net"), shown(apart, "net"));
  char own[64] = {};
  ASSERT_GT(::readlink("/proc/self/ns/net", own, sizeof own - 1), 0);
  EXPECT_NE(shown(one, "net"), std::string(own) + "\n");

  Crash();
  Open();
  engine_->Adopt(gang, grant);
  engine_->Adopt(GangOf("2", 3), second);
  EXPECT_EQ(engine_->AdoptAttempt(one), AttemptFate::kRunning);
  EXPECT_EQ(engine_->AdoptAttempt(apart), AttemptFate::kRunning);
  ASSERT_TRUE(engine_->Start(two));
  ASSERT_TRUE(is_shown(two));
  EXPECT_EQ(shown(two, "net"), shown(one, "net"));  // they can reach each other
  for (const LaunchSpec* spec : {&one, &two, &apart}) engine_->Stop(KeyOf(*spec));
  ASSERT_TRUE(AwaitEnded(3));
  engine_->Release("1");
  engine_->Release("2");
  ExpectClean("1");
}

TEST_F(LocalEngineTest, FillsInMountsAndLimitsWhereTheMachinePermits) {
  options_.buckets_directory = directory_ / "buckets";
  options_.buckets_elsewhere = {{"data", "/mnt/data"}};
  Open();
  Admit(GangOf("1", 1));
  const LaunchSpec spec = SpecOf("1", 0, {"exit", "0"});
  ASSERT_TRUE(engine_->Start(spec));
  const auto launch = FilesOf(spec).ReadLaunch();
  ASSERT_TRUE(launch);
  const auto& isolation = launch->isolation();
  ASSERT_EQ(isolation.mounts_size(), CanMount(options_) ? 3 : 0);
  if (isolation.mounts_size() > 0) {
    EXPECT_EQ(isolation.mounts(0).source(), options_.buckets_directory);
    EXPECT_EQ(isolation.mounts(0).target(), "/gcs");
    EXPECT_EQ(isolation.mounts(1).source(), "/mnt/data");
    EXPECT_EQ(isolation.mounts(1).target(), "/gcs/data");
    EXPECT_EQ(isolation.mounts(2).source(), FilesOf(spec).log_storage());
    EXPECT_EQ(isolation.mounts(2).target(), "/var/log-storage");
  }
  const Cgroups cgroups = Cgroups::Find({}, "probe" + RandomHex(4));
  EXPECT_EQ(!isolation.cgroup_directory().empty(), cgroups.can_kill());
  EXPECT_EQ(isolation.memory_limit_bytes(), cgroups.can_limit_memory() ? int64_t(512) << 20 : 0);
  cgroups.RemoveIfEmpty();
  EXPECT_EQ(launch->environment(0).name(), "MUSTER_ATTEMPT");
  EXPECT_EQ(launch->environment(0).value(), "1/workerpool0-0/0");
  ASSERT_TRUE(AwaitEnded());
  engine_->Release("1");
  ExpectClean("1");
}

TEST_F(LocalEngineTest, WhyWaitingMayBeAskedFromAnyThread) {
  Open();
  std::atomic<bool> done = false;
  std::thread asker([&] {
    while (!done) engine_->WhyWaiting("1");
  });
  for (int i = 0; i < 100; ++i) {
    listener_.grants.clear();
    Admit(GangOf("1", 2));
    engine_->Release("1");
  }
  done = true;
  asker.join();
}

TEST_F(LocalEngineTest, ManyCyclesLeaveNothing) {
  options_.private_network = true;
  Open();
  const auto cycle = [&](int i) {
    const std::string uid = "job" + std::to_string(i);
    Admit(GangOf(uid, 2));
    const LaunchSpec one = SpecOf(uid, 0, {"run", "(setsid sleep 600 &); sleep 600"});
    const LaunchSpec two = SpecOf(uid, 1, {"exit", "0"});
    listener_.ended.clear();
    ASSERT_TRUE(engine_->Start(one));
    ASSERT_TRUE(engine_->Start(two));
    if (i % 3 == 0) {
      ASSERT_TRUE(AwaitRunning(one));
    }
    if (i % 6 == 0) {
      ::kill(AgentPid(one), SIGKILL);
    } else {
      engine_->Stop(KeyOf(one));
    }
    ASSERT_TRUE(AwaitEnded(2));
    engine_->Release(uid);
  };
  cycle(0);
  const size_t descriptors = OpenDescriptors();
  constexpr int kCycles = 60;
  for (int i = 1; i <= kCycles && !HasFatalFailure(); ++i) cycle(i);
  // The last leak checks, which run in the background, have some open for a moment.
  EXPECT_TRUE(Await([&] { return OpenDescriptors() <= descriptors; }))
      << OpenDescriptors() << " instead of " << descriptors;
  engine_.reset();  // waits for the last leak checks
  for (int i = 0; i <= kCycles; ++i) {
    EXPECT_THAT(FindMarkedProcesses("job" + std::to_string(i) + "/"), IsEmpty());
  }
  ExpectClean("job0");
  ReapOrphans({});
  EXPECT_THAT(ReadFile("/proc/self/task/" + std::to_string(::getpid()) + "/children").value_or("?"),
              IsEmpty());
}

}  // namespace
}  // namespace muster::engine
