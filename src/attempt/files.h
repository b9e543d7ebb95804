// The files of one attempt (one run of one replica): the engine writes launch.json and starts an
// agent, the agent leaves the others. docs/protocol/agent.md tells the same to people.
//
//   launch.json   what to run; mode 0600, since it holds the token
//   lock          locked for as long as the agent lives
//   agent.json    which process is, or was, the agent; written once: with it the attempt is taken.
//                 Not synced: after a power cut it may be missing or empty
//   report.reserved  disk space set aside for report.json, which it becomes
//   report.json   how it ended; appears whole, after all processes of the replica are gone
//   log           the replica's output (src/logs)
//   agent.log     the agent's own diagnostics
//   work/ tmp/    the program's working directory and TMPDIR
//   log-storage/  output*.log files that the program writes there are collected
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/fd.h"

namespace muster::v1 {
class LaunchSpec;
class ReportRequest;
}  // namespace muster::v1

namespace muster::attempt {

// Set in every replica's environment and inherited by all that it starts, which is found by it:
// MUSTER_ATTEMPT=<job uid>/<replica>/<attempt>.
inline constexpr std::string_view kAttemptVariable = "MUSTER_ATTEMPT";

// A process, told apart from later ones with the same number, also across restarts of the machine.
struct ProcessIdentity {
  int pid = 0;
  uint64_t start_time_ticks = 0;  // since boot: field 22 of /proc/<pid>/stat
  std::string boot_id;            // /proc/sys/kernel/random/boot_id

  bool operator==(const ProcessIdentity&) const = default;
};

// NOT_FOUND if there is no such process (or only its remains, a zombie).
Result<ProcessIdentity> IdentifyProcess(int pid);
Result<std::string> ThisBootId();
bool IsAlive(const ProcessIdentity& process);

// The agent's exit codes.
inline constexpr int kAgentDone = 0;    // report.json is written
inline constexpr int kAgentFailed = 1;  // agent.log says why; the attempt counts as lost
inline constexpr int kAgentBadUsage = 2;
inline constexpr int kAgentNotNeeded = 3;  // another agent has, or had, this attempt

class AttemptFiles {
 public:
  explicit AttemptFiles(std::filesystem::path directory) : directory_(std::move(directory)) {}

  const std::filesystem::path& directory() const { return directory_; }
  std::filesystem::path launch() const { return directory_ / "launch.json"; }
  std::filesystem::path lock() const { return directory_ / "lock"; }
  std::filesystem::path agent() const { return directory_ / "agent.json"; }
  std::filesystem::path report() const { return directory_ / "report.json"; }
  std::filesystem::path log() const { return directory_ / "log"; }
  std::filesystem::path agent_log() const { return directory_ / "agent.log"; }
  std::filesystem::path work() const { return directory_ / "work"; }
  std::filesystem::path tmp() const { return directory_ / "tmp"; }
  std::filesystem::path log_storage() const { return directory_ / "log-storage"; }

  // Every Read…: NOT_FOUND if the file is not there, DATA_LOSS if it cannot be understood.
  Status WriteLaunch(const muster::v1::LaunchSpec& spec) const;
  Result<muster::v1::LaunchSpec> ReadLaunch() const;

  Status WriteAgent(const ProcessIdentity& agent) const;
  Result<ProcessIdentity> ReadAgent() const;

  // Sets disk space aside, so that WriteReport works on a full disk too.
  Status ReserveReport() const;
  // `report` has `exited`. The token is left out.
  Status WriteReport(const muster::v1::ReportRequest& report) const;
  Result<muster::v1::ReportRequest> ReadReport() const;

  // Held until the descriptor is closed. ABORTED if another process holds it.
  Result<UniqueFd> Lock() const;
  // An agent lives. Looking never gets in a starting agent's way.
  bool IsLocked() const;

 private:
  std::filesystem::path reserved_report() const { return directory_ / "report.reserved"; }

  std::filesystem::path directory_;
};

}  // namespace muster::attempt
