// After every job: is anything left of it?
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace muster::engine {

struct LeakScope {
  std::string job_uid;
  std::filesystem::path job_directory;         // jobs/<job uid>
  std::vector<std::filesystem::path> cgroups;  // the job's, where there are hierarchies
};

struct Leaks {
  std::vector<int> processes;
  std::vector<std::string> findings;  // one plain sentence each, the processes too
};

// Looks at this machine; changes nothing. May take some milliseconds: not for the event loop.
Leaks FindLeaks(const LeakScope& scope);

// Mount points at or below a directory, in the text of /proc/self/mountinfo.
std::vector<std::string> MountsBelow(std::string_view mountinfo,
                                     const std::filesystem::path& directory);

}  // namespace muster::engine
