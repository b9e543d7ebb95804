#include "agent/agent.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <muster/v1/agent.pb.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "agent/supervisor.h"
#include "attempt/files.h"
#include "base/log.h"

namespace muster::agent {

namespace {
// SIGTERM asks for the end of the replica; the rest of what terminals and pipes send is nothing.
void SetSignals() {
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigaddset(&blocked, SIGCHLD);
  ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2, SIGXFSZ}) {
    ::signal(signal, SIG_IGN);
  }
}

// What was inherited (namespaces, leases of ports) is the agent's alone.
void CloseOnExec() {
  if (::syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) == 0) return;
  for (int fd = 3; fd < 1024; ++fd) {  // kernels before 5.11
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags >= 0) ::fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
  }
}

Status Supervise(const attempt::AttemptFiles& files) {
  MUSTER_ASSIGN(muster::v1::LaunchSpec spec, files.ReadLaunch());
  MUSTER_ASSIGN(const attempt::ProcessIdentity self, attempt::IdentifyProcess(::getpid()));
  MUSTER_TRY(files.WriteAgent(self));
  // On a disk that is full already the report may still reach musterd.
  if (const Status reserved = files.ReserveReport(); !reserved) {
    LogWarning("{}", reserved.error().message);
  }
  UniqueFd log(::open(files.log().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log) return FailErrno(errno, files.log().string());
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return FailErrno(errno, "becoming a subreaper");
  return Supervisor(std::move(spec), files, std::move(log)).Run();
}
}  // namespace

int RunAgent(const std::filesystem::path& attempt_directory) {
  SetSignals();
  CloseOnExec();
  ::setsid();
  const attempt::AttemptFiles files(attempt_directory);
  const auto lock = files.Lock();
  if (!lock && lock.error().code == Code::kAborted) return attempt::kAgentNotNeeded;
  if (!lock) {
    LogError("{}", lock.error().message);
    return attempt::kAgentFailed;
  }
  // At most one agent ever, also if the first one is dead.
  if (::access(files.agent().c_str(), F_OK) == 0) return attempt::kAgentNotNeeded;
  if (const Status supervised = Supervise(files); !supervised) {
    LogError("{}", supervised.error().message);
    return attempt::kAgentFailed;
  }
  return attempt::kAgentDone;
}

}  // namespace muster::agent
