// The engine with the agent that it is made for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/v1/agent.pb.h>
#include <signal.h>
#include <unistd.h>

#include "base/file.h"
#include "engine/local/engine_fixture.h"

namespace muster::engine {
namespace {

using muster::v1::LaunchSpec;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class AgentTest : public LocalEngineTest {
 protected:
  AgentTest() {
    options_.agent_binary = MUSTER_AGENT;
    options_.kill_margin = std::chrono::seconds(5);
    options_.private_network = true;
    options_.buckets_directory = directory_ / "buckets";
  }
  LaunchSpec Shell(const std::string& uid, int replica, const std::string& command,
                   int attempt = 0) const {
    LaunchSpec spec = SpecOf(uid, replica, {"sh", "-c", command}, attempt);
    auto& path = *spec.add_environment();
    path.set_name("PATH");
    path.set_value("/usr/bin:/bin");
    spec.set_endpoint_file((directory_ / "musterd.json").string());  // nobody is there
    return spec;
  }
};

TEST_F(AgentTest, RunsInThePlaceThatTheEngineMade) {
  Open();
  const Grant grant = Admit(GangOf("1", 2));
  const LaunchSpec spec = Shell("1", 0,
                                "ls /proc/self/fd > fds; tail -n +3 /proc/self/net/dev | "
                                "cut -d: -f1 > dev; echo hi > /gcs/b.txt; cat dev fds; exit 3");
  ASSERT_TRUE(engine_->Start(spec));
  ASSERT_TRUE(AwaitEnded());
  const auto report = engine_->ReadReport(spec);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->status(), 3);
  const std::string log = ReadFile(FilesOf(spec).log()).value_or("");
  if (grant.private_network) {
    EXPECT_THAT(log, HasSubstr("    lo"));
  }
  // ls's own three and the directory that it reads; nothing of the agent's.
  EXPECT_THAT(log, ::testing::EndsWith(" O 3\n"));
  if (CanMount(options_)) {
    EXPECT_EQ(ReadFile(options_.buckets_directory / "b.txt").value_or(""), "hi\n");
  }
  engine_->Release("1");
  ExpectClean("1");
}

TEST_F(AgentTest, StopsAtOnceAlsoBeforeItIsReady) {
  Open();
  Admit(GangOf("1", 1));
  const LaunchSpec spec = Shell("1", 0, "sleep 600");
  ASSERT_TRUE(engine_->Start(spec));
  engine_->Stop(KeyOf(spec));
  ASSERT_TRUE(AwaitEnded());
  const auto report = engine_->ReadReport(spec);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->cause(), muster::v1::Exited::STOPPED);
  engine_->Release("1");
  ExpectClean("1");
}

TEST_F(AgentTest, KilledWithALargeTree) {
  Open();
  Admit(GangOf("1", 1));
  const LaunchSpec spec =
      Shell("1", 0, "trap '' TERM; (setsid sleep 600 &); sleep 600 & touch f; sleep 600");
  ASSERT_TRUE(engine_->Start(spec));
  ASSERT_TRUE(AwaitRunning(spec, 4));
  ::kill(AgentPid(spec), SIGKILL);
  ASSERT_TRUE(AwaitEnded());
  EXPECT_EQ(engine_->ReadReport(spec).error().code, Code::kNotFound);
  EXPECT_THAT(FindMarkedProcesses(MarkerOf(spec)), IsEmpty());
  engine_->Release("1");
  ExpectClean("1");
}

TEST_F(AgentTest, OutlivesTheEngineAndIsTakenBack) {
  Open();
  const Gang gang = GangOf("1", 2);
  const Grant grant = Admit(gang);
  const LaunchSpec spec = Shell("1", 0, "readlink /proc/self/ns/net > ../net0; sleep 600");
  ASSERT_TRUE(engine_->Start(spec));
  ASSERT_TRUE(AwaitRunning(spec, 2));
  Crash();
  Open();
  engine_->Adopt(gang, grant);
  ASSERT_EQ(engine_->AdoptAttempt(spec), AttemptFate::kRunning);
  const LaunchSpec other = Shell("1", 1, "readlink /proc/self/ns/net > ../net1; exec sleep 600");
  ASSERT_TRUE(engine_->Start(other));
  const auto directory = FilesOf(spec).directory();
  const auto other_directory = FilesOf(other).directory();
  ASSERT_TRUE(Await([&] { return std::filesystem::exists(other_directory / "net1"); }));
  ASSERT_TRUE(Await([&] { return !ReadFile(other_directory / "net1").value_or("").empty(); }));
  EXPECT_EQ(ReadFile(directory / "net0").value_or("0"),
            ReadFile(other_directory / "net1").value_or("1"));
  engine_->Stop(KeyOf(spec));
  engine_->Stop(KeyOf(other));
  ASSERT_TRUE(AwaitEnded(2));
  EXPECT_EQ(engine_->ReadReport(spec)->cause(), muster::v1::Exited::STOPPED);
  engine_->Release("1");
  ExpectClean("1");
}

TEST_F(AgentTest, MemoryIsLimitedWhereTheMachinePermits) {
  Open();
  if (!engine_->cgroups().can_limit_memory()) GTEST_SKIP() << "no memory cgroup is writable";
  Gang gang = GangOf("1", 1);
  gang.members[0].memory_mb = 64;
  Admit(gang);
  const LaunchSpec spec = Shell("1", 0, "exec perl -e '$x = \"x\" x 300000000; print length $x'");
  ASSERT_TRUE(engine_->Start(spec));
  ASSERT_TRUE(AwaitEnded());
  const auto report = engine_->ReadReport(spec);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->cause(), muster::v1::Exited::OUT_OF_MEMORY) << report->DebugString();
  engine_->Release("1");
  ExpectClean("1");
}

}  // namespace
}  // namespace muster::engine
