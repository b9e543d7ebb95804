#include "agent/cgroup.h"

#include <fcntl.h>
#include <muster/v1/agent.pb.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include "base/fd.h"
#include "base/file.h"

namespace muster::agent {

namespace fs = std::filesystem;

namespace {
Status WriteControl(const fs::path& file, std::string_view text) {
  const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd || ::write(fd.get(), text.data(), text.size()) != ssize_t(text.size())) {
    return FailErrno(errno, file.string());
  }
  return {};
}

Status LimitMemory(const fs::path& directory, int64_t bytes) {
  const std::string text = std::to_string(bytes);
  std::error_code error;
  if (fs::exists(directory / "memory.max", error)) {
    MUSTER_TRY(WriteControl(directory / "memory.max", text));
    // Swapping would only put off the end; not every kernel counts swap.
    (void)WriteControl(directory / "memory.swap.max", "0");
    return {};
  }
  MUSTER_TRY(WriteControl(directory / "memory.limit_in_bytes", text));
  (void)WriteControl(directory / "memory.memsw.limit_in_bytes", text);
  return {};
}

// Leaves first: programs that run as root may have made cgroups inside.
void RemoveDirectories(const fs::path& directory) {
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored) && !it->is_symlink(ignored)) RemoveDirectories(it->path());
  }
  ::rmdir(directory.c_str());
}
}  // namespace

Result<ReplicaCgroups> ReplicaCgroups::Make(const muster::v1::Isolation& isolation) {
  ReplicaCgroups cgroups;
  cgroups.kill_ = isolation.cgroup_directory();
  cgroups.memory_ = isolation.memory_cgroup_directory();
  for (const fs::path& directory : {cgroups.kill_, cgroups.memory_}) {
    if (directory.empty()) continue;
    if (!cgroups.made_.empty() && cgroups.made_.front() == directory) continue;
    MUSTER_TRY(MakeDirectories(directory));
    cgroups.made_.push_back(directory);
  }
  if (!cgroups.memory_.empty() && isolation.memory_limit_bytes() > 0) {
    MUSTER_TRY(LimitMemory(cgroups.memory_, isolation.memory_limit_bytes()));
  }
  return cgroups;
}

Status ReplicaCgroups::Join() const {
  for (const fs::path& directory : made_) {
    MUSTER_TRY(WriteControl(directory / "cgroup.procs", "0"));
  }
  return {};
}

void ReplicaCgroups::Kill() const {
  if (!kill_.empty()) (void)WriteControl(kill_ / "cgroup.kill", "1");
}

int64_t ReplicaCgroups::OutOfMemoryKills() const {
  if (memory_.empty()) return 0;
  for (const char* file : {"memory.events", "memory.oom_control"}) {
    std::istringstream lines(ReadFile(memory_ / file).value_or(""));
    std::string name;
    for (int64_t count = 0; lines >> name >> count;) {
      if (name == "oom_kill") return count;
    }
  }
  return 0;
}

bool ReplicaCgroups::TryRemove() const {
  bool all_gone = true;
  for (const fs::path& directory : made_) {
    RemoveDirectories(directory);
    all_gone = all_gone && ::access(directory.c_str(), F_OK) != 0;
  }
  return all_gone;
}

}  // namespace muster::agent
