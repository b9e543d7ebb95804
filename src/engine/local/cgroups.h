// Where replicas' cgroups can be made: in the v2 hierarchy (for cgroup.kill, which ends a whole
// tree at once), also in a hybrid set-up where v2 has no controllers; and where the memory
// controller is, v1 or v2.
//
//   <hierarchy>/<musterd's own cgroup>/muster-<data directory's id>/<job uid>/workerpool0-0-0
//
// The engine makes the directories down to the job's and removes them; the agent makes and removes
// the last one, and the engine does so if the agent could not.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace muster::engine {

// Directories of this process's own cgroup; empty: no such hierarchy, or not this process's.
struct OwnCgroups {
  std::filesystem::path v2;
  std::filesystem::path v1_memory;
};

// From the contents of /proc/self/mountinfo and /proc/self/cgroup.
OwnCgroups ParseOwnCgroups(std::string_view mountinfo, std::string_view cgroup);

struct CgroupOptions {
  bool enabled = true;
  bool memory = true;
  // Instead of this process's own v2 cgroup: one that is delegated to it.
  std::filesystem::path parent;
};

class Cgroups {
 public:
  // `id`: of the data directory, so that musterds do not meet. Looks what is permitted by doing it.
  static Cgroups Find(const CgroupOptions& options, const std::string& id);

  // A replica's directories, with their parents made; empty where there are none.
  struct Directories {
    std::filesystem::path kill;
    std::filesystem::path memory;  // may be the same as kill
  };
  Directories Prepare(const std::string& job_uid, const std::string& leaf) const;

  // Removes a job's directories. Those in which something runs stay: it says which.
  std::vector<std::filesystem::path> RemoveJob(const std::string& job_uid) const;
  // The jobs that have directories.
  std::vector<std::string> Jobs() const;
  // Removes what is left when no job is: the muster-<id> directories, if they are empty.
  void RemoveIfEmpty() const;

  bool can_kill() const { return !kill_base_.empty(); }
  bool can_limit_memory() const { return !memory_base_.empty(); }
  const std::filesystem::path& kill_base() const { return kill_base_; }
  const std::filesystem::path& memory_base() const { return memory_base_; }

 private:
  std::filesystem::path kill_base_;  // …/muster-<id>; empty: not writable
  std::filesystem::path memory_base_;
};

// Kills all that runs in a v2 cgroup and below it. A directory that is not there is fine.
void KillCgroup(const std::filesystem::path& directory);
// Whether nothing runs in it (v1: nothing but zombies is listed).
bool IsCgroupEmpty(const std::filesystem::path& directory);
// The processes in a cgroup and below it.
std::vector<int> CgroupProcesses(const std::filesystem::path& directory);
// rmdir of it and all below it; true if it is gone.
bool RemoveCgroup(const std::filesystem::path& directory);

}  // namespace muster::engine
