// A stand-in for muster-agent in the engine's tests: it keeps to the same files and descriptors,
// and does what the launch specification's argv says:
//
//   exit STATUS            reports at once
//   run COMMAND            runs it with sh, in the spec's cgroup and network; SIGTERM ends it
//   stubborn COMMAND       the same, but SIGTERM is ignored
//   late MS COMMAND        as run, but waits before it takes the attempt
//   descriptors            writes the numbers of its descriptors to <attempt directory>/descriptors
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <muster/v1/agent.pb.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "attempt/files.h"
#include "base/file.h"

namespace {

namespace fs = std::filesystem;
using muster::attempt::AttemptFiles;
using muster::v1::LaunchSpec;

std::vector<int> Descriptors() {
  std::vector<int> numbers;
  DIR* directory = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(directory)) {
    const int number = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && number != ::dirfd(directory)) numbers.push_back(number);
  }
  ::closedir(directory);
  return numbers;
}

void Enter(const std::string& cgroup) {
  if (cgroup.empty()) return;
  ::mkdir(cgroup.c_str(), 0755);
  std::ofstream(cgroup + "/cgroup.procs") << ::getpid();
}

pid_t StartCommand(const LaunchSpec& spec, const std::string& command) {
  const auto& isolation = spec.isolation();
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::setsid();
  Enter(isolation.cgroup_directory());
  Enter(isolation.memory_cgroup_directory());
  if (isolation.user_namespace_fd() > 0) ::setns(isolation.user_namespace_fd(), CLONE_NEWUSER);
  if (isolation.network_namespace_fd() > 0) ::setns(isolation.network_namespace_fd(), CLONE_NEWNET);
  for (int fd = 3; fd < 300; ++fd) ::close(fd);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::clearenv();
  ::setenv("PATH", "/usr/bin:/bin:/usr/sbin:/sbin", 1);
  for (const auto& variable : spec.environment()) {
    ::setenv(variable.name().c_str(), variable.value().c_str(), 1);
  }
  ::chdir(spec.attempt_directory().c_str());
  ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  ::_exit(127);
}

// The exit status of the command; -1 if the agent was told to stop it.
int Supervise(pid_t child, bool stubborn) {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGTERM);
  sigaddset(&wanted, SIGCHLD);
  bool stopped = false;
  for (;;) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) {
      return stopped ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (::sigwaitinfo(&wanted, nullptr) == SIGTERM && !stubborn) {
      stopped = true;
      ::kill(-child, SIGKILL);
    }
  }
}

int Run(const AttemptFiles& files) {
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigaddset(&blocked, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);

  auto spec = files.ReadLaunch();
  if (!spec) return muster::attempt::kAgentFailed;
  std::vector<std::string> argv(spec->argv().begin(), spec->argv().end());
  if (argv[0] == "late") {
    ::poll(nullptr, 0, std::atoi(argv[1].c_str()));
    argv = {"run", argv[2]};
  }
  const auto lock = files.Lock();
  if (!lock || files.ReadAgent()) return muster::attempt::kAgentNotNeeded;
  // Only an attempt that is still wanted is taken.
  spec = files.ReadLaunch();
  if (!spec) return muster::attempt::kAgentNotNeeded;
  if (argv[0] == "descriptors") {
    const std::vector<int> numbers = Descriptors();
    std::ofstream out(files.directory() / "descriptors");
    for (const int number : numbers) {
      if (number != lock->get()) out << number << " ";
    }
  }
  if (!files.WriteAgent(*muster::attempt::IdentifyProcess(::getpid()))) return 1;
  fs::create_directories(files.work());
  fs::create_directories(files.tmp());

  muster::v1::ReportRequest report;
  *report.mutable_id() = spec->id();
  auto& exited = *report.mutable_exited();
  exited.set_cause(muster::v1::Exited::EXITED);
  if (argv[0] == "exit") exited.set_status(std::atoi(argv[1].c_str()));
  if (argv[0] == "run" || argv[0] == "stubborn") {
    const int status = Supervise(StartCommand(*spec, argv[1]), argv[0] == "stubborn");
    if (status < 0) exited.set_cause(muster::v1::Exited::STOPPED);
    exited.set_status(status < 0 ? 143 : status);
  }
  fs::remove_all(files.work());
  fs::remove_all(files.tmp());
  for (const std::string& cgroup :
       {spec->isolation().cgroup_directory(), spec->isolation().memory_cgroup_directory()}) {
    if (!cgroup.empty()) ::rmdir(cgroup.c_str());
  }
  return files.WriteReport(report) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return muster::attempt::kAgentBadUsage;
  return Run(AttemptFiles(argv[1]));
}
