#include "agent/process_tree.h"

#include <dirent.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <map>

#include "attempt/proc_stat.h"
#include "base/fd.h"

namespace muster::agent {

namespace {
void CollectBelow(int parent, const std::multimap<int, Descendant>& by_parent,
                  std::vector<Descendant>& found) {
  const auto [begin, end] = by_parent.equal_range(parent);
  for (auto it = begin; it != end; ++it) found.push_back(it->second);
}
}  // namespace

std::vector<Descendant> FindDescendants() {
  std::multimap<int, Descendant> by_parent;
  DIR* const directory = ::opendir("/proc");
  if (directory == nullptr) return {};
  while (const dirent* entry = ::readdir(directory)) {
    int pid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    const auto [stop, error] = std::from_chars(entry->d_name, end, pid);
    if (error != std::errc() || stop != end) continue;
    if (const auto stat = attempt::ReadProcStat(pid)) {
      by_parent.emplace(stat->parent, Descendant{pid, stat->start_time_ticks});
    }
  }
  ::closedir(directory);
  std::vector<Descendant> found;
  CollectBelow(::getpid(), by_parent, found);
  // Parents are looked at once each, so a table that changed while it was read does no harm.
  for (size_t i = 0; i < found.size() && found.size() <= by_parent.size(); ++i) {
    CollectBelow(found[i].pid, by_parent, found);
  }
  return found;
}

void SignalDescendants(int signal) {
  for (const Descendant& descendant : FindDescendants()) {
    const UniqueFd process(int(::syscall(SYS_pidfd_open, descendant.pid, 0)));
    if (!process) continue;
    const auto stat = attempt::ReadProcStat(descendant.pid);
    if (!stat || stat->start_time_ticks != descendant.start_time_ticks) continue;
    ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0);
    if (signal != SIGKILL) ::syscall(SYS_pidfd_send_signal, process.get(), SIGCONT, nullptr, 0);
  }
}

}  // namespace muster::agent
