#include "engine/local/namespaces.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/nsfs.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

// The child below shares this process's memory while its parent's thread stands still. It may only
// make system calls: no allocation, no locks.
#define MUSTER_IN_CHILD __attribute__((no_sanitize("address", "thread", "undefined")))

namespace muster::engine {

namespace {
struct ChildTask {
  // In.
  bool network = false;
  bool user = false;
  bool try_mount = false;
  std::array<char, 64> uid_map{};
  std::array<char, 64> gid_map{};
  // Out. Descriptors are the parent's as well: the table is shared.
  int network_fd = -1;
  int user_fd = -1;
  int error = 0;
  const char* failed = nullptr;
};

MUSTER_IN_CHILD bool WriteText(const char* path, const char* text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  size_t size = 0;
  while (text[size] != 0) ++size;
  const bool written = ::write(fd, text, size) == ssize_t(size);
  const int error = errno;
  ::close(fd);
  errno = error;
  return written;
}

MUSTER_IN_CHILD bool BringLoopbackUp() {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  ifreq request{};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  bool up = ::ioctl(fd, SIOCGIFFLAGS, &request) == 0;
  request.ifr_flags = short(request.ifr_flags | IFF_UP | IFF_RUNNING);
  up = up && ::ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  const int error = errno;
  ::close(fd);
  errno = error;
  return up;
}

MUSTER_IN_CHILD int Fail(ChildTask& task, const char* what) {
  task.error = errno;
  task.failed = what;
  return 1;
}

MUSTER_IN_CHILD int RunChild(void* argument) {
  ChildTask& task = *static_cast<ChildTask*>(argument);
  if (task.user) {
    // The user keeps the ids they have; no others exist inside.
    if (!WriteText("/proc/self/setgroups", "deny") && errno != ENOENT) {
      return Fail(task, "/proc/self/setgroups");
    }
    if (!WriteText("/proc/self/uid_map", task.uid_map.data())) return Fail(task, "uid_map");
    if (!WriteText("/proc/self/gid_map", task.gid_map.data())) return Fail(task, "gid_map");
  }
  if (task.network && !BringLoopbackUp()) return Fail(task, "the interface lo");
  if (task.try_mount) {
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, nullptr) != 0 ||
        ::mount("/proc/self", "/tmp", nullptr, MS_BIND, nullptr) != 0) {
      return Fail(task, "mount");
    }
    return 0;
  }
  if (task.network) {
    task.network_fd = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (task.network_fd < 0) return Fail(task, "/proc/self/ns/net");
  }
  if (task.user) {
    task.user_fd = ::open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
    if (task.user_fd < 0) return Fail(task, "/proc/self/ns/user");
  }
  return 0;
}

// CLONE_VM and CLONE_VFORK as in posix_spawn; CLONE_FILES brings the descriptors back.
Status RunInNewNamespaces(ChildTask& task) {
  fmt::format_to_n(task.uid_map.data(), task.uid_map.size() - 1, "{0} {0} 1\n", ::geteuid());
  fmt::format_to_n(task.gid_map.data(), task.gid_map.size() - 1, "{0} {0} 1\n", ::getegid());
  const int flags = CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD |
                    (task.user ? CLONE_NEWUSER : 0) | (task.network ? CLONE_NEWNET : 0) |
                    (task.try_mount ? CLONE_NEWNS : 0);
  alignas(16) std::array<char, 64 * 1024> stack;
  // A handler must not run in the child, on its stack and with this thread's variables.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  const pid_t pid = ::clone(&RunChild, stack.data() + stack.size(), flags, &task);
  const int error = errno;
  if (pid >= 0) {
    while (::waitpid(pid, nullptr, __WALL) < 0 && errno == EINTR) {
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    return muster::Fail(Code::kPermissionDenied, "a namespace: {}", std::strerror(error));
  }
  if (task.failed != nullptr) {
    return muster::Fail(Code::kPermissionDenied, "{} in a new namespace: {}", task.failed,
                        std::strerror(task.error));
  }
  return {};
}

Result<UniqueFd> OpenNamespace(int pid, int fd, int type) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, fd);
  UniqueFd opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!opened) return FailErrno(errno, path);
  if (::ioctl(opened.get(), NS_GET_NSTYPE) != type) {
    return muster::Fail(Code::kNotFound, "{} is not the job's namespace", path);
  }
  return opened;
}
}  // namespace

Result<Namespaces> MakeNamespaces(NamespaceWish wish) {
  ChildTask task;
  task.network = wish.network;
  task.user = wish.user;
  const Status made = RunInNewNamespaces(task);
  Namespaces namespaces{UniqueFd(task.network_fd), UniqueFd(task.user_fd)};
  if (!made) return std::unexpected(made.error());
  return namespaces;
}

NamespaceAbilities FindNamespaceAbilities() {
  NamespaceAbilities abilities;
  const auto try_it = [](bool user, bool network, bool mount) {
    ChildTask task;
    task.user = user;
    task.network = network;
    task.try_mount = mount;
    const Status made = RunInNewNamespaces(task);
    UniqueFd(task.network_fd).Reset();
    UniqueFd(task.user_fd).Reset();
    return made;
  };
  Status network = try_it(false, true, false);
  Status mount = try_it(false, false, true);
  if (!network || !mount) {
    Status user_network = try_it(true, true, false);
    Status user_mount = try_it(true, false, true);
    if (int(user_network.has_value()) + int(user_mount.has_value()) >
        int(network.has_value()) + int(mount.has_value())) {
      abilities.needs_user = true;
      network = std::move(user_network);
      mount = std::move(user_mount);
    }
  }
  abilities.network = network.has_value();
  abilities.mount = mount.has_value();
  if (!network) abilities.why_no_network = network.error().message;
  if (!mount) abilities.why_no_mount = mount.error().message;
  return abilities;
}

Result<Namespaces> ReopenNamespaces(int pid, int network_fd, int user_fd) {
  Namespaces namespaces;
  if (network_fd > 0) {
    MUSTER_ASSIGN(namespaces.network, OpenNamespace(pid, network_fd, CLONE_NEWNET));
  }
  if (user_fd > 0) {
    MUSTER_ASSIGN(namespaces.user, OpenNamespace(pid, user_fd, CLONE_NEWUSER));
  }
  return namespaces;
}

}  // namespace muster::engine
