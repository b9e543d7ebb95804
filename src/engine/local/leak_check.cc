#include "engine/local/leak_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <system_error>

#include "attempt/files.h"
#include "base/file.h"
#include "engine/local/process_tree.h"

namespace muster::engine {

namespace fs = std::filesystem;

namespace {
std::string CommandLine(int pid) {
  std::string text = ReadFile(fmt::format("/proc/{}/cmdline", pid)).value_or("");
  std::ranges::replace(text, '\0', ' ');
  while (text.ends_with(' ')) text.pop_back();
  constexpr size_t kShown = 120;
  return text.substr(0, kShown);
}

// jobs/<job uid>/<replica>/attempt-<n>
void FindDirectories(const fs::path& job_directory, std::vector<std::string>& findings) {
  std::error_code error;
  for (const auto& replica : fs::directory_iterator(job_directory, error)) {
    std::error_code no_replica;
    for (const auto& attempt : fs::directory_iterator(replica.path(), no_replica)) {
      if (!attempt.path().filename().string().starts_with("attempt-")) continue;
      const attempt::AttemptFiles files(attempt.path());
      for (const fs::path& path : {files.work(), files.tmp()}) {
        std::error_code ignored;
        if (fs::exists(fs::symlink_status(path, ignored))) {
          findings.push_back(fmt::format("the temporary directory {}", path.string()));
        }
      }
      if (files.IsLocked()) {
        findings.push_back(fmt::format("an agent that holds {}", files.lock().string()));
      }
    }
  }
}
}  // namespace

Leaks FindLeaks(const LeakScope& scope) {
  Leaks leaks;
  leaks.processes = FindMarkedProcesses(scope.job_uid + "/");
  for (const int pid : leaks.processes) {
    leaks.findings.push_back(fmt::format("process {} ({})", pid, CommandLine(pid)));
  }
  for (const fs::path& cgroup : scope.cgroups) {
    std::error_code ignored;
    if (!cgroup.empty() && fs::exists(cgroup, ignored)) {
      leaks.findings.push_back(fmt::format("the cgroup {}", cgroup.string()));
    }
  }
  for (const std::string& mount :
       MountsBelow(ReadFile("/proc/self/mountinfo").value_or(""), scope.job_directory)) {
    leaks.findings.push_back("the mount " + mount);
  }
  FindDirectories(scope.job_directory, leaks.findings);
  return leaks;
}

std::vector<std::string> MountsBelow(std::string_view mountinfo, const fs::path& directory) {
  std::vector<std::string> mounts;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string id, parent, device, root, point;
    fields >> id >> parent >> device >> root >> point;
    if (point == directory.string() || point.starts_with(directory.string() + "/")) {
      mounts.push_back(point);
    }
  }
  return mounts;
}

}  // namespace muster::engine
