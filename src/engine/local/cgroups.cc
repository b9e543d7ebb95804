#include "engine/local/cgroups.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <set>
#include <sstream>
#include <system_error>

#include "base/fd.h"
#include "base/file.h"

namespace muster::engine {

namespace fs = std::filesystem;

namespace {
std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool HasWord(std::string_view list, std::string_view word, char separator) {
  for (const std::string& entry : Split(std::string(list), separator)) {
    if (entry == word) return true;
  }
  return false;
}

// mountinfo writes a space as \040, and so on.
std::string Unescape(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      plain += char((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

struct Mount {
  std::string root;  // which part of the hierarchy is mounted
  fs::path point;
};

// The directory of `cgroup` ("/a/b") in a mount of its hierarchy; empty if it is not in there.
fs::path InMount(const Mount& mount, const std::string& cgroup) {
  if (mount.point.empty() || cgroup.empty() || cgroup.starts_with("/..")) return {};
  if (mount.root == "/") return cgroup == "/" ? mount.point : mount.point / cgroup.substr(1);
  if (cgroup == mount.root) return mount.point;
  if (cgroup.starts_with(mount.root + "/")) {
    return mount.point / cgroup.substr(mount.root.size() + 1);
  }
  return {};
}

bool WriteControl(const fs::path& file, std::string_view text) {
  const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  return fd && ::write(fd.get(), text.data(), text.size()) == ssize_t(text.size());
}

bool EnableMemory(const fs::path& directory) {
  const std::string enabled = ReadFile(directory / "cgroup.subtree_control").value_or("");
  if (HasWord(enabled.substr(0, enabled.find('\n')), "memory", ' ')) return true;
  return WriteControl(directory / "cgroup.subtree_control", "+memory");
}

bool MakeDirectory(const fs::path& path) {
  return ::mkdir(path.c_str(), 0755) == 0 || errno == EEXIST;
}

// A replica's agent must be able to move its child in here: so make one, and look.
bool CanMake(const fs::path& base, const char* needed_file) {
  if (!MakeDirectory(base)) return false;
  const fs::path probe = base / "probe";
  const bool made = MakeDirectory(probe) && ::access((probe / "cgroup.procs").c_str(), W_OK) == 0 &&
                    ::access((probe / needed_file).c_str(), W_OK) == 0;
  ::rmdir(probe.c_str());
  if (!made) ::rmdir(base.c_str());
  return made;
}

// Leaves first. Only directories: a cgroup's files go with it.
template <typename Visit>
void VisitTree(const fs::path& directory, const Visit& visit) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    std::error_code ignored;
    if (entry.is_directory(ignored) && !entry.is_symlink(ignored)) VisitTree(entry.path(), visit);
  }
  visit(directory);
}
}  // namespace

OwnCgroups ParseOwnCgroups(std::string_view mountinfo, std::string_view cgroup) {
  Mount v2;
  Mount memory;
  for (const std::string& line : Split(std::string(mountinfo), '\n')) {
    // "36 35 0:30 <root> <mount point> rw,… [optional…] - <type> <source> <super options>"
    const std::vector<std::string> fields = Split(line, ' ');
    const size_t dash = line.find(" - ");
    if (fields.size() < 10 || dash == std::string::npos) continue;
    const std::vector<std::string> tail = Split(line.substr(dash + 3), ' ');
    const Mount mount{Unescape(fields[3]), Unescape(fields[4])};
    if (tail[0] == "cgroup2" && v2.point.empty()) v2 = mount;
    if (tail[0] == "cgroup" && tail.size() > 2 && HasWord(tail[2], "memory", ',')) memory = mount;
  }
  OwnCgroups own;
  for (const std::string& line : Split(std::string(cgroup), '\n')) {
    // "<hierarchy>:<controllers>:<path>"; v2 is "0::<path>"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) own.v2 = InMount(v2, path);
    if (HasWord(controllers, "memory", ',')) own.v1_memory = InMount(memory, path);
  }
  return own;
}

Cgroups Cgroups::Find(const CgroupOptions& options, const std::string& id) {
  Cgroups found;
  if (!options.enabled) return found;
  OwnCgroups own = ParseOwnCgroups(ReadFile("/proc/self/mountinfo").value_or(""),
                                   ReadFile("/proc/self/cgroup").value_or(""));
  if (!options.parent.empty()) own.v2 = options.parent;
  const std::string name = "muster-" + id;
  if (!own.v2.empty() && CanMake(own.v2 / name, "cgroup.kill")) found.kill_base_ = own.v2 / name;
  if (!options.memory) {
    // Nothing more is looked for.
  } else if (!own.v1_memory.empty()) {
    const fs::path base = own.v1_memory / name;
    if (CanMake(base, "memory.limit_in_bytes")) found.memory_base_ = base;
  } else if (!found.kill_base_.empty() && EnableMemory(own.v2) && MakeDirectory(found.kill_base_) &&
             EnableMemory(found.kill_base_) && CanMake(found.kill_base_, "memory.max")) {
    found.memory_base_ = found.kill_base_;
  }
  found.RemoveIfEmpty();  // made anew for each job: an idle musterd that is killed leaves nothing
  return found;
}

Cgroups::Directories Cgroups::Prepare(const std::string& job_uid, const std::string& leaf) const {
  Directories directories;
  const auto prepare = [&](const fs::path& base) -> fs::path {
    if (base.empty() || !MakeDirectory(base) || !MakeDirectory(base / job_uid)) return {};
    return base / job_uid / leaf;
  };
  directories.kill = prepare(kill_base_);
  directories.memory = prepare(memory_base_);
  if (!directories.memory.empty() && memory_base_ == kill_base_ &&
      !(EnableMemory(kill_base_) && EnableMemory(kill_base_ / job_uid))) {
    directories.memory.clear();
  }
  return directories;
}

std::vector<fs::path> Cgroups::RemoveJob(const std::string& job_uid) const {
  std::vector<fs::path> left;
  for (const fs::path& base : {kill_base_, memory_base_}) {
    if (base.empty()) continue;
    VisitTree(base / job_uid, [&](const fs::path& directory) {
      if (::rmdir(directory.c_str()) != 0 && errno != ENOENT) left.push_back(directory);
    });
  }
  RemoveIfEmpty();
  return left;
}

std::vector<std::string> Cgroups::Jobs() const {
  std::set<std::string> jobs;
  for (const fs::path& base : {kill_base_, memory_base_}) {
    std::error_code error;
    if (base.empty()) continue;
    for (const auto& entry : fs::directory_iterator(base, error)) {
      std::error_code ignored;
      if (entry.is_directory(ignored)) jobs.insert(entry.path().filename().string());
    }
  }
  return {jobs.begin(), jobs.end()};
}

void Cgroups::RemoveIfEmpty() const {
  for (const fs::path& base : {kill_base_, memory_base_}) {
    if (!base.empty()) ::rmdir(base.c_str());
  }
}

void KillCgroup(const fs::path& directory) {
  if (!directory.empty()) WriteControl(directory / "cgroup.kill", "1");
}

std::vector<int> CgroupProcesses(const fs::path& directory) {
  std::vector<int> pids;
  if (directory.empty()) return pids;
  VisitTree(directory, [&](const fs::path& part) {
    std::istringstream lines(ReadFile(part / "cgroup.procs").value_or(""));
    for (int pid = 0; lines >> pid;) pids.push_back(pid);
  });
  return pids;
}

bool IsCgroupEmpty(const fs::path& directory) { return CgroupProcesses(directory).empty(); }

bool RemoveCgroup(const fs::path& directory) {
  if (directory.empty()) return true;
  VisitTree(directory, [](const fs::path& part) { ::rmdir(part.c_str()); });
  std::error_code error;
  return !fs::exists(directory, error);
}

}  // namespace muster::engine
