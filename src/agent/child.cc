#include "agent/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string_view>

namespace muster::agent {

namespace {
constexpr int kOutputPipeBytes = 1 << 20;
constexpr int kStatusFd = 3;
constexpr std::string_view kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

struct Pipe {
  UniqueFd read, write;
};

Result<Pipe> MakePipe(int capacity_bytes) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return FailErrno(errno, "a pipe");
  Pipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  // Less is fine: users may have a lower limit.
  if (capacity_bytes > 0) ::fcntl(pipe.read.get(), F_SETPIPE_SZ, capacity_bytes);
  return pipe;
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::string_view PathOf(const Program& program) {
  std::string_view path = kDefaultPath;
  for (const std::string& variable : program.environment) {
    if (variable.starts_with("PATH=")) path = std::string_view(variable).substr(5);
  }
  return path;
}

// ENOENT though the file is there: a script's interpreter, or a program's loader, is missing.
std::string MissingInterpreter(const std::string& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  if (line.starts_with("#!")) {
    return fmt::format("program '{}' cannot run: what its first line names, '{}', does not exist",
                       file, line.substr(0, 200));
  }
  return fmt::format("program '{}' cannot run: the loader that it needs is not on this machine",
                     file);
}

std::string WhyNotRun(const std::string& file, int error) {
  struct stat info{};
  const bool exists = ::stat(file.c_str(), &info) == 0;
  if (error == ENOENT && exists) return MissingInterpreter(file);
  if (error == ENOENT) return fmt::format("program '{}' does not exist", file);
  if (exists && S_ISDIR(info.st_mode)) return fmt::format("program '{}' is a directory", file);
  if (error == EACCES && exists) {
    return fmt::format("program '{}' may not be executed: permission denied (chmod +x?)", file);
  }
  if (error == ENOEXEC) {
    return fmt::format(
        "program '{}' cannot run: it is neither a program for this machine nor a script with a "
        "first line such as #!/bin/sh",
        file);
  }
  if (error == E2BIG) {
    return fmt::format("program '{}' cannot run: its arguments and environment are too long", file);
  }
  return fmt::format("program '{}' cannot run: {}", file, FailErrno(error, "exec").error().message);
}

// Returns only if the program could not be executed.
std::string Execute(const Program& program) {
  const std::string& name = program.argv[0];
  const std::vector<char*> argv = Pointers(program.argv);
  const std::vector<char*> environment = Pointers(program.environment);
  if (name.empty()) return "the program's name is empty";
  if (name.find('/') != std::string::npos) {
    ::execve(name.c_str(), argv.data(), environment.data());
    return WhyNotRun(name, errno);
  }
  const std::string_view path = PathOf(program);
  std::string denied;
  for (std::string_view rest = path;;) {
    const size_t colon = rest.find(':');
    const std::string_view directory = rest.substr(0, colon);
    const std::string file = fmt::format("{}/{}", directory.empty() ? "." : directory, name);
    ::execve(file.c_str(), argv.data(), environment.data());
    const int error = errno;
    const bool exists = ::access(file.c_str(), F_OK) == 0;
    if (error == EACCES && exists) {
      denied = WhyNotRun(file, error);  // perhaps a later directory has another
    } else if (exists || (error != ENOENT && error != ENOTDIR && error != EACCES)) {
      return WhyNotRun(file, error);
    }
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  return denied.empty() ? fmt::format("program '{}' was not found in PATH={}", name, path) : denied;
}

// Through the system call, since the C library keeps two signals to itself, and a parent that used
// posix_spawn (make does) leaves those ignored. All zero is SIG_DFL in every machine's layout.
void ResetSignals() {
  struct {
    uint64_t words[4];  // handler, flags, restorer, mask
  } by_default{};
  for (int signal = 1; signal < NSIG; ++signal) {
    ::syscall(SYS_rt_sigaction, signal, &by_default, nullptr, sizeof(uint64_t));
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// In the child. Returns why it did not become the program.
std::string Become(const Program& program, const std::function<Status()>& prepare, pid_t agent,
                   const Pipe& out, const Pipe& err) {
  ::setsid();
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (const Status prepared = prepare(); !prepared) return prepared.error().message;
  if (::chdir(program.working_directory.c_str()) != 0) {
    return FailErrno(errno, "working directory " + program.working_directory).error().message;
  }
  if (!null || ::dup2(null.get(), 0) < 0 || ::dup2(out.write.get(), 1) < 0 ||
      ::dup2(err.write.get(), 2) < 0) {
    return FailErrno(errno, "standard streams").error().message;
  }
  // A last resort for this process alone, should the agent be killed.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != agent) return "its agent is gone";
  ResetSignals();
  return Execute(program);
}
}  // namespace

Result<Child> StartChild(const Program& program, const std::function<Status()>& prepare) {
  if (program.argv.empty()) return Fail(Code::kInvalidArgument, "there is no program to run");
  MUSTER_ASSIGN(Pipe out, MakePipe(kOutputPipeBytes));
  MUSTER_ASSIGN(Pipe err, MakePipe(kOutputPipeBytes));
  MUSTER_ASSIGN(Pipe status, MakePipe(0));
  const pid_t agent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return FailErrno(errno, "a new process");
  if (pid == 0) {
    int status_fd = status.write.get();
    if (program.keeps_status_pipe) {
      // Its number may be taken by a pipe that is still needed: those move up first.
      for (Pipe* pipe : {&out, &err}) {
        pipe->write.Reset(::fcntl(pipe->write.get(), F_DUPFD_CLOEXEC, kStatusFd + 1));
      }
      status_fd = ::dup2(status_fd, kStatusFd);
      ::fcntl(status_fd, F_SETFD, 0);
    }
    const std::string why = Become(program, prepare, agent, out, err);
    (void)!::write(status_fd, why.data(), why.size());
    ::_exit(kNotStartedCode);
  }
  return Child{pid, std::move(out.read), std::move(err.read), std::move(status.read)};
}

}  // namespace muster::agent
