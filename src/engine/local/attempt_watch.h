// One attempt, from the start of its agent until nothing of it is left.
//
//   Spawned ───────────────────────▶ kRunning ──agent ended──▶ kClearing ──nothing left──▶ kEnded
//   Adopted ─▶ kFindingAgent ──found──▶ ▲                          ▲ (callback)
//                    │   ▲              └─ it was not needed: ─────┤
//                    │   └──────────────── another has the attempt │
//                    └── its lock is free: it ended ───────────────┘
//
// An agent that wrote a report has ended its replica's tree itself. If it left none, it was killed:
// then kClearing ends the tree in its stead and removes work/, tmp/ and the cgroups.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "attempt/files.h"
#include "base/fd.h"
#include "engine/engine.h"
#include "engine/local/event_loop.h"
#include "engine/local/launcher.h"
#include "engine/local/process_tree.h"

namespace muster::engine {

struct WatchedAttempt {
  AttemptKey key;
  std::string name;    // "workerpool0-0 of job 123, attempt 0": for messages
  std::string marker;  // value of MUSTER_ATTEMPT
  attempt::AttemptFiles files;
  std::vector<std::filesystem::path> cgroups;
  std::chrono::milliseconds grace{10'000};
  std::chrono::milliseconds kill_margin{5'000};  // past the grace period
};

// All methods on the event loop.
class AttemptWatch {
 public:
  // `ended` is called once, from the event loop, and may destroy the AttemptWatch. `found` is
  // called when the agent of an adopted attempt is known: perhaps never, perhaps within
  // WatchAdopted.
  AttemptWatch(EventLoop& loop, WatchedAttempt attempt, std::function<void()> ended,
               std::function<void()> found);

  void WatchSpawned(AgentProcess agent);
  // An agent runs or did: finds it by the attempt's files.
  void WatchAdopted();
  // Its agent is dead: ends and removes what it left, and calls `ended` then. Returns at once.
  void Clear();

  void Stop();  // SIGTERM; SIGKILL when the time is over
  void Kill();  // SIGKILL at once

  // 0 until the agent is known.
  int agent_pid() const { return agent_.pid; }
  int pidfd() const { return agent_.pidfd.get(); }
  const WatchedAttempt& attempt() const { return attempt_; }

 private:
  enum class State { kIdle, kFindingAgent, kRunning, kClearing, kEnded };

  void FindAgent();
  void Watch(AgentProcess agent);
  void OnAgentEnded();
  void ClearStep();
  void RemoveRemains();
  void End();
  void Again(std::chrono::milliseconds delay, void (AttemptWatch::*step)());

  EventLoop& loop_;
  const WatchedAttempt attempt_;
  std::function<void()> ended_;
  const std::function<void()> found_;
  State state_ = State::kIdle;
  AgentProcess agent_;
  bool stop_wanted_ = false;
  bool kill_wanted_ = false;
  std::unique_ptr<TreeKiller> killer_;
  int clear_steps_ = 0;
  Subscription next_;        // the one thing that is waited for …
  Subscription kill_timer_;  // … but for this
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

// Removes the files that a replica needed while it ran, and its cgroups; what tells of it stays.
void RemoveRemains(const attempt::AttemptFiles& files,
                   const std::vector<std::filesystem::path>& cgroups, const std::string& name);

}  // namespace muster::engine
