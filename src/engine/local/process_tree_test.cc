#include "engine/local/process_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attempt/files.h"
#include "base/file.h"
#include "engine/local/cgroups.h"
#include "engine/local/leak_check.h"

namespace muster::engine {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

// A child in its own session with the marker in its environment, running a shell command.
pid_t Spawn(const std::string& marker, const std::string& command) {
  const std::string variable = std::string(attempt::kAttemptVariable) + "=" + marker;
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::setsid();
  const char* environment[] = {"PATH=/usr/bin:/bin", variable.c_str(), nullptr};
  ::execle("/bin/sh", "sh", "-c", command.c_str(), nullptr, environment);
  ::_exit(127);
}

template <typename Condition>
bool Await(const Condition& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    ::usleep(10'000);
  }
  return false;
}

TEST(ProcessTree, FindsByTheWholeValue) {
  const std::string uid = "job" + RandomHex(8);
  const pid_t pid = Spawn(uid + "/workerpool0-0/1", "exec sleep 600");
  // While a process changes its program, it has no environment for a moment.
  ASSERT_TRUE(Await([&] {
    return ReadFile("/proc/" + std::to_string(pid) + "/comm").value_or("") == "sleep\n" &&
           !FindMarkedProcesses(uid + "/").empty();
  }));
  EXPECT_THAT(FindMarkedProcesses(uid + "/workerpool0-0/1"), Contains(pid));
  EXPECT_THAT(FindMarkedProcesses(uid + "/workerpool0-0/"), Contains(pid));
  EXPECT_THAT(FindMarkedProcesses(uid + "/workerpool0-0/10"), IsEmpty());
  EXPECT_THAT(FindMarkedProcesses(uid + "/workerpool0-0"), IsEmpty());
  EXPECT_THAT(FindLeaks({uid, "/nowhere", {}}).findings,
              Contains(::testing::HasSubstr("process " + std::to_string(pid))));
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  EXPECT_THAT(FindMarkedProcesses(uid + "/"), IsEmpty());
}

TEST(ProcessTree, EndsDaemonsAndWhatForksOnAndOn) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const std::string marker = "job" + RandomHex(8) + "/workerpool0-0/0";
  const pid_t pid = Spawn(marker,
                          "(setsid sleep 600 &); (trap '' TERM; sleep 600) & "
                          "f() { sleep 0.01; f & }; f; f; f; wait; sleep 600");
  ASSERT_TRUE(Await([&] { return FindMarkedProcesses(marker).size() > 5; }));
  TreeKiller killer(marker, {});
  EXPECT_TRUE(killer.StepFor(std::chrono::seconds(20)));
  EXPECT_GE(killer.killed_count(), 4u);
  EXPECT_THAT(FindMarkedProcesses(marker), IsEmpty());
  ::waitpid(pid, nullptr, WNOHANG);
  ReapOrphans({});
  EXPECT_THAT(ReadFile("/proc/self/task/" + std::to_string(::getpid()) + "/children").value_or(""),
              IsEmpty());
}

TEST(ProcessTree, OrphansThatAreKeptAreNotReaped) {
  const pid_t pid = Spawn("job" + RandomHex(8) + "/x/0", "exit 3");
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, id_t(pid), &info, WEXITED | WNOWAIT), 0);
  ReapOrphans({pid});
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, WNOHANG), pid);
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST(ProcessTree, ACgroupHoldsThoseThatHideTheirEnvironment) {
  const Cgroups cgroups = Cgroups::Find({}, "test" + RandomHex(8));
  if (!cgroups.can_kill()) GTEST_SKIP() << "no cgroup is writable";
  EXPECT_FALSE(std::filesystem::exists(cgroups.kill_base()));  // looking leaves nothing
  const auto directories = cgroups.Prepare("job", "workerpool0-0-0");
  ASSERT_TRUE(MakeDirectories(directories.kill));
  const std::string marker = "job" + RandomHex(8) + "/workerpool0-0/0";
  const pid_t pid = Spawn(marker, "echo $$ > " + (directories.kill / "cgroup.procs").string() +
                                      "; exec env -i sleep 600");
  ASSERT_TRUE(Await([&] { return !IsCgroupEmpty(directories.kill); }));
  ASSERT_TRUE(Await([&] { return FindMarkedProcesses(marker).empty(); }));
  EXPECT_FALSE(RemoveCgroup(directories.kill));
  TreeKiller killer(marker, {directories.kill, directories.memory});
  EXPECT_TRUE(killer.StepFor(std::chrono::seconds(20)));
  EXPECT_TRUE(IsCgroupEmpty(directories.kill));
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), -1);  // was reaped
  EXPECT_THAT(cgroups.RemoveJob("job"), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(cgroups.kill_base()));
}

}  // namespace
}  // namespace muster::engine
