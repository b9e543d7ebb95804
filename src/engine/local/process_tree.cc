#include "engine/local/process_tree.h"

#include <dirent.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <thread>

#include "attempt/files.h"
#include "attempt/proc_stat.h"
#include "base/file.h"
#include "engine/local/cgroups.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

namespace muster::engine {

namespace {
// A process that forks while the table is read may put its child where it was read already.
constexpr int kEmptyRoundsWanted = 2;

std::vector<int> NumbersIn(const char* directory) {
  std::vector<int> numbers;
  DIR* stream = ::opendir(directory);
  if (stream == nullptr) return numbers;
  while (const dirent* entry = ::readdir(stream)) {
    const std::string_view name = entry->d_name;
    int number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && end == name.data() + name.size()) numbers.push_back(number);
  }
  ::closedir(stream);
  return numbers;
}

bool IsMarked(int pid, std::string_view value) {
  const auto environment = ReadFile(fmt::format("/proc/{}/environ", pid));
  if (!environment) return false;
  const std::string wanted = fmt::format("{}={}", attempt::kAttemptVariable, value);
  const bool prefix = value.ends_with('/');
  for (size_t at = environment->find(wanted); at != std::string::npos;
       at = environment->find(wanted, at + 1)) {
    const size_t end = at + wanted.size();
    const bool begins = at == 0 || (*environment)[at - 1] == '\0';
    const bool ends = prefix || end == environment->size() || (*environment)[end] == '\0';
    if (begins && ends) return true;
  }
  return false;
}

bool HasEnded(int pidfd) {
  pollfd wait{pidfd, POLLIN, 0};
  return ::poll(&wait, 1, 0) == 1;
}
}  // namespace

std::vector<int> FindMarkedProcesses(std::string_view value) {
  std::vector<int> found;
  const int self = ::getpid();
  for (const int pid : NumbersIn("/proc")) {
    if (pid != self && IsMarked(pid, value)) found.push_back(pid);
  }
  return found;
}

void ReapOrphans(const std::vector<int>& keep) {
  const int session = ::getsid(0);
  for (const int thread : NumbersIn("/proc/self/task")) {
    std::istringstream children(
        ReadFile(fmt::format("/proc/self/task/{}/children", thread)).value_or(""));
    for (int pid = 0; children >> pid;) {
      if (std::ranges::find(keep, pid) != keep.end()) continue;
      const auto stat = attempt::ReadProcStat(pid);
      if (stat && stat->is_zombie() && stat->session != session) ::waitpid(pid, nullptr, WNOHANG);
    }
  }
}

TreeKiller::TreeKiller(std::string marker, std::vector<std::filesystem::path> cgroups)
    : marker_(std::move(marker)), cgroups_(std::move(cgroups)) {}

bool TreeKiller::Step() {
  std::vector<int> found = FindMarkedProcesses(marker_);
  for (const auto& cgroup : cgroups_) {
    const std::vector<int> inside = CgroupProcesses(cgroup);
    found.insert(found.end(), inside.begin(), inside.end());
  }
  std::erase_if(found, [&](int pid) { return pid == ::getpid(); });
  for (const int pid : found) Kill(pid);
  for (const auto& cgroup : cgroups_) KillCgroup(cgroup);

  std::erase_if(dying_, [](const auto& entry) {
    if (!HasEnded(entry.second.get())) return false;
    siginfo_t info{};  // reaps it, if it has become this process's child
    ::waitid(idtype_t(P_PIDFD), id_t(entry.second.get()), &info, WEXITED | WNOHANG);
    return true;
  });
  empty_rounds_ = found.empty() && dying_.empty() ? empty_rounds_ + 1 : 0;
  return empty_rounds_ >= kEmptyRoundsWanted;
}

bool TreeKiller::StepFor(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!Step()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    if (empty_rounds_ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// By descriptor: should the process end and its number be given away meanwhile, the signal goes
// nowhere. `pid` was found before, so it is looked at again.
void TreeKiller::Kill(int pid) {
  auto known = dying_.find(pid);
  if (known == dying_.end()) {
    UniqueFd pidfd(int(::syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd) return;
    bool still_it = IsMarked(pid, marker_);
    for (const auto& cgroup : cgroups_) {
      const std::vector<int> inside = still_it ? std::vector<int>() : CgroupProcesses(cgroup);
      still_it = still_it || std::ranges::find(inside, pid) != inside.end();
    }
    if (!still_it) return;
    known = dying_.emplace(pid, std::move(pidfd)).first;
    ++killed_count_;
  }
  ::syscall(SYS_pidfd_send_signal, known->second.get(), SIGKILL, nullptr, 0);
}

}  // namespace muster::engine
