// The real muster-agent, with real programs. After each test nothing may be left: no process (each
// carries MUSTER_ATTEMPT in its environment), no cgroup, no mount.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/v1/agent.pb.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "attempt/files.h"
#include "base/file.h"
#include "logs/merge.h"

namespace muster::agent {

using namespace std::chrono_literals;
using muster::v1::Exited;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr auto kDeadline = 30s;

// True once `condition` holds; false if it does not within the deadline.
template <typename Condition>
bool Eventually(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::poll(nullptr, 0, 2);
  }
  return true;
}

inline std::vector<int> MarkedProcesses(const std::string& marker) {
  std::vector<int> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto environment = ReadFile(entry.path() / "environ");
    if (environment && environment->find(marker) != std::string::npos) {
      found.push_back(std::stoi(name));
    }
  }
  return found;
}

class AgentTest : public testing::Test {
 protected:
  AgentTest() : files_(root_ / "attempt") {
    fs::create_directories(files_.directory());
    spec_.mutable_id()->set_job_uid(uid_);
    spec_.mutable_id()->set_pool(1);
    spec_.set_replica_name("workerpool1-0");
    spec_.set_attempt_directory(files_.directory());
    SetVariable("PATH", "/usr/local/bin:/usr/bin:/bin");
    SetVariable(std::string(attempt::kAttemptVariable), uid_);
    spec_.mutable_grace_period()->set_seconds(20);
  }

  ~AgentTest() override {
    if (agent_ > 0) {
      ::kill(agent_, SIGKILL);
      ::waitpid(agent_, nullptr, 0);
    }
    const auto left = MarkedProcesses(uid_);
    EXPECT_THAT(left, testing::IsEmpty());
    for (const int pid : left) ::kill(pid, SIGKILL);
    for (const auto& cgroup : cgroups_) {
      EXPECT_FALSE(fs::exists(cgroup)) << cgroup;
      ::rmdir(cgroup.c_str());
    }
    EXPECT_THAT(*ReadFile("/proc/self/mountinfo"), testing::Not(HasSubstr(uid_)));
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  void SetVariable(const std::string& name, const std::string& value) {
    auto& variable = *spec_.add_environment();
    variable.set_name(name);
    variable.set_value(value);
  }
  void Run(std::vector<std::string> argv) {
    spec_.mutable_argv()->Assign(argv.begin(), argv.end());
  }
  void Shell(const std::string& script) { Run({"sh", "-c", script}); }

  // `before` runs in the forked child, before the agent.
  void Start(const std::function<void()>& before = nullptr) {
    ASSERT_TRUE(files_.WriteLaunch(spec_));
    agent_ = SpawnAgent(before);
  }

  pid_t SpawnAgent(const std::function<void()>& before = nullptr) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      const int log = ::open(files_.agent_log().c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
      ::dup2(log, 1);
      ::dup2(log, 2);
      if (before) before();
      ::execl(MUSTER_AGENT, "muster-agent", files_.directory().c_str(), nullptr);
      ::_exit(126);
    }
    return pid;
  }

  static int WaitFor(pid_t pid) {
    int status = -1;
    const bool ended = Eventually([&] { return ::waitpid(pid, &status, WNOHANG) == pid; });
    EXPECT_TRUE(ended);
    if (!ended) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // How the attempt ended, after the agent did.
  Exited Finish() {
    EXPECT_EQ(WaitFor(std::exchange(agent_, 0)), attempt::kAgentDone)
        << ReadFile(files_.agent_log()).value_or("");
    const auto report = files_.ReadReport();
    EXPECT_TRUE(report) << report.error().message;
    return report ? report->exited() : Exited();
  }
  Exited StartAndFinish() {
    Start();
    return Finish();
  }

  std::vector<logs::LogEntry> Log() {
    logs::Cursor cursor;
    const auto page = logs::ReadMerged({{"k", "workerpool1-0", 0, files_.log()}}, nullptr, cursor,
                                       1'000'000, size_t(1) << 40);
    EXPECT_TRUE(page);
    return page->entries;
  }
  std::vector<std::string> Lines() {
    std::vector<std::string> lines;
    for (const auto& entry : Log()) lines.push_back(entry.message);
    return lines;
  }
  bool WaitForLine(const std::string& line) {
    return Eventually([&] {
      const auto lines = Lines();
      return std::ranges::find(lines, line) != lines.end();
    });
  }

  // cgroups below this process's own, of whatever kind there is.
  bool AddCgroups(bool kill, int64_t memory_limit) {
    const auto add = [&](const fs::path& base, const char* needed) -> fs::path {
      const fs::path path = base / ("muster-test-" + uid_);
      if (::mkdir(path.c_str(), 0755) != 0) return {};
      const bool usable = ::access((path / needed).c_str(), W_OK) == 0;
      ::rmdir(path.c_str());
      if (usable) cgroups_.push_back(path);
      return usable ? path : fs::path();
    };
    if (kill) {
      for (const char* base : {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"}) {
        if (const fs::path path = add(base, "cgroup.kill"); !path.empty()) {
          spec_.mutable_isolation()->set_cgroup_directory(path);
          return true;
        }
      }
      return false;
    }
    for (const auto& [base, file] : {std::pair{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
                                     {"/sys/fs/cgroup", "memory.max"}}) {
      if (const fs::path path = add(base, file); !path.empty()) {
        spec_.mutable_isolation()->set_memory_cgroup_directory(path);
        spec_.mutable_isolation()->set_memory_limit_bytes(memory_limit);
        return true;
      }
    }
    return false;
  }

  const std::string uid_ = "agent-test-" + RandomHex(12);
  const fs::path root_ = fs::temp_directory_path() / uid_;
  const attempt::AttemptFiles files_;
  muster::v1::LaunchSpec spec_;
  std::vector<fs::path> cgroups_;
  pid_t agent_ = 0;
};

}  // namespace muster::agent
