// Starting, ending, stopping; what the log holds.
#include <fstream>

#include "agent/agent_test_util.h"

namespace muster::agent {
namespace {

TEST_F(AgentTest, RunsAProgramToItsEnd) {
  Shell("echo out; echo err >&2; pwd; echo $TMPDIR; touch $TMPDIR/x; printf unfinished");
  const Exited exited = StartAndFinish();
  EXPECT_EQ(exited.cause(), Exited::EXITED);
  EXPECT_EQ(exited.status(), 0);
  EXPECT_EQ(exited.detail(), "");
  EXPECT_TRUE(exited.has_start_time());
  EXPECT_THAT(Lines(), testing::UnorderedElementsAre("out", "err", files_.work(), files_.tmp(),
                                                     "unfinished"));
}

TEST_F(AgentTest, TheEnvironmentIsTheSpecsAlone) {
  ::setenv("MUSTER_TEST_STRAY", "1", 1);
  SetVariable("HOME", "/home/x");
  SetVariable("A", "b c");
  Run({"env"});
  StartAndFinish();
  ::unsetenv("MUSTER_TEST_STRAY");
  EXPECT_THAT(Lines(), testing::UnorderedElementsAre("PATH=/usr/local/bin:/usr/bin:/bin",
                                                     "MUSTER_ATTEMPT=" + uid_, "HOME=/home/x",
                                                     "A=b c", "TMPDIR=" + files_.tmp().string()));
}

TEST_F(AgentTest, NothingElseIsInherited) {
  Shell("ls /proc/self/fd | wc -l; cat /proc/self/status | grep -E '^Sig(Blk|Ign)'");
  Start([] {
    for (int fd = 200; fd < 204; ++fd) ::dup2(1, fd);
    ::signal(SIGINT, SIG_IGN);
  });
  Finish();
  // 0, 1, 2 and the directory that ls reads.
  EXPECT_THAT(Lines(),
              testing::ElementsAre("4", "SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000"));
}

TEST_F(AgentTest, TellsStatusAndTraceback) {
  Shell(
      "echo 'Traceback (most recent call last):' >&2; echo '  File x' >&2; "
      "echo 'ValueError: é' >&2; exit 7");
  const Exited exited = StartAndFinish();
  EXPECT_EQ(exited.cause(), Exited::EXITED);
  EXPECT_EQ(exited.status(), 7);
  EXPECT_EQ(exited.detail(), "Traceback (most recent call last):\n  File x\nValueError: é");
}

TEST_F(AgentTest, TellsTheSignal) {
  Shell("kill -SEGV $$");
  const Exited exited = StartAndFinish();
  EXPECT_EQ(exited.cause(), Exited::EXITED);
  EXPECT_EQ(exited.status(), 139);
  EXPECT_THAT(exited.detail(), HasSubstr("SIGSEGV"));
}

TEST_F(AgentTest, MissingProgramIsNamed) {
  Run({"no-such-program"});
  const Exited exited = StartAndFinish();
  EXPECT_EQ(exited.cause(), Exited::NEVER_STARTED);
  EXPECT_FALSE(exited.has_start_time());
  EXPECT_EQ(exited.detail(),
            "program 'no-such-program' was not found in PATH=/usr/local/bin:/usr/bin:/bin");
}

TEST_F(AgentTest, WhatCannotBeExecutedIsExplained) {
  const auto file = [&](const char* name, const char* content, int mode) {
    EXPECT_TRUE(WriteFileAtomic(root_ / name, content, mode));
    ::chmod((root_ / name).c_str(), mode_t(mode));
    return (root_ / name).string();
  };
  const std::pair<std::string, const char*> cases[] = {
      {"/no/such/file", "does not exist"},
      {file("plain", "#!/bin/sh\n", 0644), "may not be executed: permission denied"},
      {file("format", "just text\n", 0755), "neither a program for this machine nor a script"},
      {file("shebang", "#!/no/interpreter -x\n", 0755), "'#!/no/interpreter -x', does not exist"},
      {root_.string(), "is a directory"},
      {"", "name is empty"},
  };
  for (const auto& [program, reason] : cases) {
    fs::remove_all(files_.directory());
    fs::create_directories(files_.directory());
    Run({program});
    const Exited exited = StartAndFinish();
    EXPECT_EQ(exited.cause(), Exited::NEVER_STARTED);
    EXPECT_THAT(exited.detail(), HasSubstr(reason));
    EXPECT_THAT(exited.detail(), HasSubstr(program));
  }
}

TEST_F(AgentTest, BadWorkingDirectoryIsNamed) {
  spec_.set_working_directory("/no/such/directory");
  Shell("true");
  const Exited exited = StartAndFinish();
  EXPECT_EQ(exited.cause(), Exited::NEVER_STARTED);
  EXPECT_EQ(exited.detail(), "working directory /no/such/directory: No such file or directory");
}

TEST_F(AgentTest, HundredMegabytesOfOutput) {
  Shell("yes 'a line of some forty bytes, or a bit more' | head -c 100000000");
  const Exited exited = StartAndFinish();
  EXPECT_EQ(exited.cause(), Exited::EXITED);
  EXPECT_EQ(exited.status(), 0);
  EXPECT_EQ(exited.log_dropped_bytes(), 0);
  const std::string log = *ReadFile(files_.log());
  const auto lines = std::ranges::count(log, '\n');
  EXPECT_EQ(int64_t(log.size()) - 20 * lines, 100'000'000 - 100'000'000 / 42)
      << "every byte but the newlines, and 20 for each record";
}

TEST_F(AgentTest, StopsWithinTheGracePeriod) {
  Shell("trap 'echo saving; exit 5' TERM; echo ready; while :; do sleep 0.01; done");
  Start();
  ASSERT_TRUE(WaitForLine("ready"));
  ::kill(agent_, SIGTERM);
  const Exited exited = Finish();
  EXPECT_EQ(exited.cause(), Exited::STOPPED);
  EXPECT_EQ(exited.status(), 5);
  EXPECT_THAT(Lines(), testing::Contains("saving"));
}

TEST_F(AgentTest, KillsWhoIgnoresSigterm) {
  spec_.mutable_grace_period()->set_seconds(0);
  spec_.mutable_grace_period()->set_nanos(100'000'000);
  Shell("trap '' TERM; echo ready; (while :; do sleep 1000; done) & while :; do sleep 1000; done");
  Start();
  ASSERT_TRUE(WaitForLine("ready"));
  ::kill(agent_, SIGTERM);
  const Exited exited = Finish();
  EXPECT_EQ(exited.cause(), Exited::STOPPED);
  EXPECT_EQ(exited.status(), 137);
}

TEST_F(AgentTest, ProcessesThatForkedAwayEndWithTheProgram) {
  // A daemon as in the books: two forks, a session of its own, output closed, SIGTERM ignored.
  Shell(
      "(setsid sh -c 'trap \"\" TERM; (while :; do sleep 1000; done) & ' >/dev/null 2>&1 &); "
      "setsid sleep 1000 & echo done");
  const Exited exited = StartAndFinish();
  EXPECT_EQ(exited.cause(), Exited::EXITED);
  EXPECT_EQ(exited.status(), 0);
  EXPECT_THAT(MarkedProcesses(uid_), testing::IsEmpty());
}

TEST_F(AgentTest, StoppedProcessesEndToo) {
  Shell("trap 'exit 4' TERM; echo ready; kill -STOP $$; while :; do sleep 0.01; done");
  Start();
  ASSERT_TRUE(WaitForLine("ready"));
  ::kill(agent_, SIGTERM);
  EXPECT_EQ(Finish().status(), 4);
}

TEST_F(AgentTest, OtherSignalsDoNotDisturb) {
  Shell("echo ready; read line < " + (root_ / "fifo").string());
  ASSERT_EQ(::mkfifo((root_ / "fifo").c_str(), 0600), 0);
  Start();
  ASSERT_TRUE(WaitForLine("ready"));
  for (const int signal : {SIGHUP, SIGINT, SIGPIPE, SIGUSR1}) ::kill(agent_, signal);
  std::ofstream(root_ / "fifo") << "go\n";
  EXPECT_EQ(Finish().cause(), Exited::EXITED);
}

TEST_F(AgentTest, CollectsLogFilesUpToTheLastByte) {
  const std::string storage = files_.log_storage().string();
  Shell("echo one > " + storage + "/output1.log; echo no > " + storage +
        "/other.log; printf 'a\\nlast' > " + storage + "/output-2.log");
  StartAndFinish();
  std::vector<std::string> lines = Lines();
  EXPECT_THAT(lines, testing::UnorderedElementsAre("one", "a", "last"));
}

TEST_F(AgentTest, OnlyOneAgentEverRunsAnAttempt) {
  Shell("echo ready; read line < " + (root_ / "fifo").string());
  ASSERT_EQ(::mkfifo((root_ / "fifo").c_str(), 0600), 0);
  Start();
  ASSERT_TRUE(WaitForLine("ready"));
  EXPECT_TRUE(files_.IsLocked());
  EXPECT_EQ(files_.ReadAgent()->pid, agent_);
  EXPECT_EQ(WaitFor(SpawnAgent()), attempt::kAgentNotNeeded);
  std::ofstream(root_ / "fifo") << "go\n";
  EXPECT_EQ(Finish().cause(), Exited::EXITED);
  EXPECT_FALSE(files_.IsLocked());
  EXPECT_EQ(WaitFor(SpawnAgent()), attempt::kAgentNotNeeded) << "also afterwards";
}

TEST_F(AgentTest, WithoutALaunchFileThereIsNothingToDo) {
  EXPECT_EQ(WaitFor(SpawnAgent()), attempt::kAgentFailed);
  EXPECT_THAT(*ReadFile(files_.agent_log()), HasSubstr("launch.json"));
  EXPECT_FALSE(fs::exists(files_.agent()));
}

TEST_F(AgentTest, TheProgramEndsWithItsAgent) {
  Shell("echo ready; exec sleep 1000");
  Start();
  ASSERT_TRUE(WaitForLine("ready"));
  ::kill(agent_, SIGKILL);
  ::waitpid(std::exchange(agent_, 0), nullptr, 0);
  EXPECT_TRUE(Eventually([&] { return MarkedProcesses(uid_).empty(); }));
  EXPECT_EQ(files_.ReadReport().error().code, Code::kNotFound);
}

}  // namespace
}  // namespace muster::agent
