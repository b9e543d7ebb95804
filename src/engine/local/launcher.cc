#include "engine/local/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

namespace muster::engine {

namespace {
// Above every number that an agent inherits, so that no dup2 overwrites what another needs.
constexpr int kAboveInherited = 300;

std::vector<std::string> AgentEnvironment() {
  std::vector<std::string> environment;
  for (const char* name : {"PATH", "HOME", "LANG"}) {
    if (const char* value = std::getenv(name))
      environment.push_back(fmt::format("{}={}", name, value));
  }
  return environment;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

class SpawnSettings {
 public:
  SpawnSettings() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
  }
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

void SetSignalsAndSession(SpawnSettings& settings) {
  sigset_t all;
  sigset_t blocked;
  sigfillset(&all);
  // A SIGTERM that comes before the agent is ready for it waits, and the agent can still report.
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ::posix_spawnattr_setsigdefault(&settings.attributes, &all);
  ::posix_spawnattr_setsigmask(&settings.attributes, &blocked);
  ::posix_spawnattr_setflags(&settings.attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
}
}  // namespace

Result<AgentProcess> SpawnAgent(const std::filesystem::path& binary,
                                const std::filesystem::path& attempt_directory,
                                const std::filesystem::path& log,
                                const std::map<int, int>& inherited) {
  SpawnSettings settings;
  SetSignalsAndSession(settings);
  ::posix_spawn_file_actions_addopen(&settings.actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&settings.actions, 1, log.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0644);
  ::posix_spawn_file_actions_adddup2(&settings.actions, 1, 2);
  std::vector<UniqueFd> sources;
  for (int target = 3; target <= kLastInheritedFd; ++target) {
    const auto wanted = inherited.find(target);
    if (wanted == inherited.end() || wanted->second < 0) {
      ::posix_spawn_file_actions_addclose(&settings.actions, target);
      continue;
    }
    UniqueFd source(::fcntl(wanted->second, F_DUPFD_CLOEXEC, kAboveInherited));
    if (!source) return FailErrno(errno, "a descriptor for an agent");
    ::posix_spawn_file_actions_adddup2(&settings.actions, source.get(), target);
    sources.push_back(std::move(source));
  }
  ::posix_spawn_file_actions_addclosefrom_np(&settings.actions, kLastInheritedFd + 1);

  std::vector<std::string> arguments = {binary.string(), attempt_directory.string()};
  std::vector<std::string> environment = AgentEnvironment();
  AgentProcess agent;
  const int error =
      ::posix_spawn(&agent.pid, binary.c_str(), &settings.actions, &settings.attributes,
                    Pointers(arguments).data(), Pointers(environment).data());
  if (error != 0) return FailErrno(error, "starting the agent " + binary.string());
  agent.is_child = true;
  // Nobody else reaps it, so the number is still its own.
  agent.pidfd = UniqueFd(int(::syscall(SYS_pidfd_open, agent.pid, 0)));
  if (!agent.pidfd) {
    const int open_error = errno;
    ::kill(agent.pid, SIGKILL);
    ::waitpid(agent.pid, nullptr, 0);
    return FailErrno(open_error, "pidfd_open");
  }
  return agent;
}

Result<UniqueFd> OpenProcess(int pid) {
  UniqueFd pidfd(int(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) return Fail(Code::kNotFound, "there is no process {}", pid);
  return pidfd;
}

void SendSignal(int pidfd, int signal) {
  ::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0);
}

int ReapChild(int pidfd) {
  siginfo_t info{};
  if (::waitid(idtype_t(P_PIDFD), id_t(pidfd), &info, WEXITED | WNOHANG) != 0) return -1;
  return info.si_code == CLD_EXITED ? info.si_status : -1;
}

}  // namespace muster::engine
