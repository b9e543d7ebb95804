// Runs one replica from its start to the end of its last process.
//
//   installing ──▶ starting ──▶ running ──main process ends──▶ ending ──no process left──▶ done
//       │             │            │                             ▲
//       └─────────────┴── stop ────┴── SIGTERM to the tree ──────┘   SIGKILL after the grace period
//
// (installing only with Python packages.) One thread and one epoll loop; the reporter's thread is
// started after the last fork. Invariants:
//  1. The agent is the subreaper of all that it starts, so "no child is left" means that nothing of
//     the replica runs.
//  2. Exited is decided once, after that, when all output is in the log.
//  3. Nothing waits without a deadline, except for processes that the kernel cannot kill.
#pragma once

#include <muster/v1/agent.pb.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "agent/cgroup.h"
#include "agent/child.h"
#include "agent/file_collector.h"
#include "agent/output.h"
#include "agent/reporter.h"
#include "attempt/files.h"
#include "base/fd.h"
#include "logs/writer.h"

namespace muster::agent {

class Supervisor {
 public:
  // SIGTERM and SIGCHLD are blocked already; no thread runs yet.
  Supervisor(muster::v1::LaunchSpec spec, attempt::AttemptFiles files, UniqueFd log);
  ~Supervisor();

  // Returns when nothing of the replica is left and report.json is written.
  Status Run();

 private:
  using SteadyClock = std::chrono::steady_clock;
  using SteadyTime = SteadyClock::time_point;

  enum class Phase { kInstalling, kStarting, kRunning };

  // Starting.
  Status Prepare();
  Status StartInstaller();
  Status StartProgram();
  Status Watch(Child child);
  std::vector<std::string> Environment() const;

  // The loop.
  Status MakeLoop();
  Status Add(int fd);
  void Loop();
  int NextTimeoutMs() const;
  void OnReadable(int fd);
  void OnTimers();
  void OnSignals();
  void OnStatus();
  void Reap();

  // Ending.
  void Stop();
  void OnMainEnded(int wait_status);
  void BeginEnding(std::chrono::milliseconds grace);
  void KillRound();
  bool IsDone() const { return has_ended_ && tree_is_empty_; }
  void CollectRest();
  muster::v1::Exited MakeExited() const;
  void RemoveCgroups();
  Status Report();

  const muster::v1::LaunchSpec spec_;
  const attempt::AttemptFiles files_;
  const SystemClock clock_;
  logs::LogWriter log_;
  OutputPipe out_;
  OutputPipe err_;
  FileCollector collector_;
  ReplicaCgroups cgroups_;

  UniqueFd epoll_;
  UniqueFd signals_;
  UniqueFd stop_asked_;  // eventfd: musterd asked for it in an answer
  Reporter reporter_;

  Phase phase_ = Phase::kStarting;
  pid_t main_pid_ = 0;
  UniqueFd status_;
  std::string status_text_;
  bool stop_wanted_ = false;
  bool has_ended_ = false;  // the main process
  bool tree_is_empty_ = true;
  int wait_status_ = 0;
  std::string never_started_;  // why
  std::optional<Time> start_time_;
  std::optional<SteadyTime> kill_at_;
  std::chrono::milliseconds kill_interval_{5};
  SteadyTime next_poll_{};
};

}  // namespace muster::agent
