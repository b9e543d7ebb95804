#include "agent/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "base/fd.h"

namespace muster::agent {

namespace {
struct ProcessStat {
  int parent = 0;
  uint64_t start_time_ticks = 0;
};

std::optional<ProcessStat> ReadStat(int pid) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  char buffer[1024];
  const ssize_t got = fd ? ::read(fd.get(), buffer, sizeof buffer) : -1;
  if (got <= 0) return std::nullopt;
  // The name, in parentheses, may hold anything; after it: state, parent, …, start time (22nd).
  std::string_view rest(buffer, size_t(got));
  const size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  rest.remove_prefix(name_end + 1);
  ProcessStat stat;
  for (int field = 3; field <= 22; ++field) {
    const size_t begin = rest.find_first_not_of(' ');
    if (begin == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(begin);
    const std::string_view text = rest.substr(0, rest.find(' '));
    if (field == 4) std::from_chars(text.data(), text.data() + text.size(), stat.parent);
    if (field == 22) {
      std::from_chars(text.data(), text.data() + text.size(), stat.start_time_ticks);
    }
    rest.remove_prefix(text.size());
  }
  return stat;
}

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
    if (const auto stat = ReadStat(pid)) {
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
    const auto stat = ReadStat(descendant.pid);
    if (!stat || stat->start_time_ticks != descendant.start_time_ticks) continue;
    ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0);
    if (signal != SIGKILL) ::syscall(SYS_pidfd_send_signal, process.get(), SIGCONT, nullptr, 0);
  }
}

}  // namespace muster::agent
