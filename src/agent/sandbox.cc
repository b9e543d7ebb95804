// A mount's target need not exist on the host and must not be made there. So the directory that
// lacks it is replaced, in this mount namespace alone, by a tmpfs that holds the same entries, each
// bound to the original (symbolic links are made anew). Such a directory, "/" for instance, loses
// what is newly written directly into it when the replica ends; below its entries all is the
// host's.
#include "agent/sandbox.h"

#include <fcntl.h>
#include <muster/v1/agent.pb.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <string>
#include <system_error>

#include "base/fd.h"

namespace muster::agent {

namespace fs = std::filesystem;

namespace {
class View {
 public:
  explicit View(fs::path staging) : staging_(std::move(staging)) {}

  // The target exists afterwards, as a directory.
  Status Provide(const fs::path& target);

 private:
  Status MakeReplaceable(const fs::path& directory);
  Status CopyEntries(const fs::path& from);
  Status CopyEntry(const fs::path& from, const fs::path& to);
  Status BecomeRoot();

  const fs::path staging_;
  std::set<fs::path> replaced_;
};

Status Bind(const fs::path& from, const fs::path& to) {
  if (::mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) {
    return FailErrno(errno, fmt::format("binding {} to {}", from.string(), to.string()));
  }
  return {};
}

Status View::CopyEntry(const fs::path& from, const fs::path& to) {
  struct stat info{};
  if (::lstat(from.c_str(), &info) != 0) return {};  // gone meanwhile
  if (S_ISLNK(info.st_mode)) {
    std::error_code error;
    const fs::path link = fs::read_symlink(from, error);
    if (!error && ::symlink(link.c_str(), to.c_str()) != 0) return FailErrno(errno, to.string());
    return {};
  }
  if (S_ISDIR(info.st_mode)) {
    if (::mkdir(to.c_str(), 0755) != 0) return FailErrno(errno, to.string());
  } else {
    const UniqueFd file(::open(to.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644));
    if (!file) return FailErrno(errno, to.string());
  }
  const Status bound = Bind(from, to);
  if (!bound && bound.error().code == Code::kNotFound) return {};
  return bound;
}

Status View::CopyEntries(const fs::path& from) {
  std::error_code error;
  for (fs::directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
    MUSTER_TRY(CopyEntry(it->path(), staging_ / it->path().filename()));
  }
  if (error) return FailErrno(error.value(), from.string());
  return {};
}

Status View::BecomeRoot() {
  if (::chdir(staging_.c_str()) != 0) return FailErrno(errno, staging_.string());
  if (::syscall(SYS_pivot_root, ".", ".") == 0) {
    // The old root now lies over the new one.
    if (::umount2(".", MNT_DETACH) != 0) return FailErrno(errno, "leaving the old root");
  } else if (::mount(".", "/", nullptr, MS_MOVE, nullptr) != 0 || ::chroot(".") != 0) {
    return FailErrno(errno, "changing the root");  // (no pivot_root from an initramfs)
  }
  if (::chdir("/") != 0) return FailErrno(errno, "/");
  return {};
}

// From now on entries can be made in `directory` without being seen on the host.
Status View::MakeReplaceable(const fs::path& directory) {
  struct stat info{};
  if (::stat(directory.c_str(), &info) != 0) return FailErrno(errno, directory.string());
  const std::string options = fmt::format("size=64m,mode={:o}", info.st_mode & 07777);
  // Not bindable: else the entries' own mounts would take it up again.
  if (::mount("muster", staging_.c_str(), "tmpfs", MS_NODEV, options.c_str()) != 0 ||
      ::mount(nullptr, staging_.c_str(), nullptr, MS_UNBINDABLE, nullptr) != 0) {
    return FailErrno(errno, "a tmpfs on " + staging_.string());
  }
  MUSTER_TRY(CopyEntries(directory));
  if (::mount(nullptr, staging_.c_str(), nullptr, MS_PRIVATE, nullptr) != 0) {
    return FailErrno(errno, staging_.string());
  }
  if (directory == "/") {
    MUSTER_TRY(BecomeRoot());
  } else if (::mount(staging_.c_str(), directory.c_str(), nullptr, MS_MOVE, nullptr) != 0) {
    return FailErrno(errno, "placing a view on " + directory.string());
  }
  replaced_.insert(directory);
  return {};
}

Status View::Provide(const fs::path& target) {
  std::error_code error;
  if (fs::is_directory(target, error)) return {};
  if (fs::exists(fs::symlink_status(target, error))) {
    return Fail(Code::kFailedPrecondition, "{} is no directory on this host", target.string());
  }
  fs::path ancestor = target.parent_path();
  while (!fs::is_directory(ancestor, error)) ancestor = ancestor.parent_path();
  const fs::path real = fs::canonical(ancestor, error);
  if (error) return FailErrno(error.value(), ancestor.string());
  if (!replaced_.contains(real)) MUSTER_TRY(MakeReplaceable(real));
  fs::create_directories(target, error);
  if (error) return FailErrno(error.value(), target.string());
  return {};
}

Status EnterNamespace(int fd, int type, const char* what) {
  if (fd <= 0 || ::setns(fd, type) == 0) return {};
  return FailErrno(errno, fmt::format("entering the job's {} namespace", what));
}
}  // namespace

Status EnterSandbox(const muster::v1::Isolation& isolation, const fs::path& staging) {
  // The user namespace first: it gives the rights for the others.
  MUSTER_TRY(EnterNamespace(isolation.user_namespace_fd(), CLONE_NEWUSER, "user"));
  MUSTER_TRY(EnterNamespace(isolation.network_namespace_fd(), CLONE_NEWNET, "network"));
  if (isolation.mounts().empty()) return {};

  if (::unshare(CLONE_NEWNS) != 0) return FailErrno(errno, "a mount namespace");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return FailErrno(errno, "making the mounts private");
  }
  View view(staging);
  for (const auto& mount : isolation.mounts()) {
    const fs::path target = fs::path(mount.target()).lexically_normal();
    if (!target.is_absolute() || target == "/") {
      return Fail(Code::kInvalidArgument, "nothing can be mounted at '{}'", mount.target());
    }
    MUSTER_TRY(view.Provide(target));
    MUSTER_TRY(Bind(mount.source(), target));
  }
  return {};
}

}  // namespace muster::agent
