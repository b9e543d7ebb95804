#include "engine/local/attempt_watch.h"

#include <muster/v1/agent.pb.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/local/cgroups.h"

namespace muster::engine {

using std::chrono::milliseconds;

namespace {
constexpr milliseconds kFindInterval{10};
constexpr milliseconds kClearInterval{10};
constexpr milliseconds kSlowClearInterval{500};
constexpr int kQuickClearSteps =
    500;  // about 5 s; then something cannot be killed: keep at it, slowly
}  // namespace

AttemptWatch::AttemptWatch(EventLoop& loop, WatchedAttempt attempt, std::function<void()> ended,
                           std::function<void()> found)
    : loop_(loop),
      attempt_(std::move(attempt)),
      ended_(std::move(ended)),
      found_(std::move(found)) {}

void AttemptWatch::WatchSpawned(AgentProcess agent) {
  MUSTER_CHECK(state_ == State::kIdle);
  Watch(std::move(agent));
}

void AttemptWatch::WatchAdopted() {
  MUSTER_CHECK(state_ == State::kIdle);
  state_ = State::kFindingAgent;
  FindAgent();
}

void AttemptWatch::Clear() {
  state_ = State::kClearing;
  kill_timer_.reset();
  if (!killer_) killer_ = std::make_unique<TreeKiller>(attempt_.marker, attempt_.cgroups);
  Again(milliseconds(0), &AttemptWatch::ClearStep);
}

void AttemptWatch::Stop() {
  if (std::exchange(stop_wanted_, true)) return;
  if (state_ == State::kRunning) SendSignal(agent_.pidfd.get(), SIGTERM);
  if (state_ == State::kRunning || state_ == State::kFindingAgent) {
    kill_timer_ = loop_.After(attempt_.grace + attempt_.kill_margin, [this] {
      LogWarning("{}: its agent did not end in time and is killed", attempt_.name);
      Kill();
    });
  }
}

void AttemptWatch::Kill() {
  kill_wanted_ = true;
  if (state_ == State::kRunning) SendSignal(agent_.pidfd.get(), SIGKILL);
}

// The agent takes the lock and then writes agent.json, so the file may be a moment away.
void AttemptWatch::FindAgent() {
  const auto identity = attempt_.files.ReadAgent();
  if (identity && attempt::IsAlive(*identity)) {
    AgentProcess agent;
    agent.pid = identity->pid;
    auto pidfd = OpenProcess(identity->pid);
    // Looked at again: now the number cannot have been given to another process meanwhile.
    if (pidfd && attempt::IsAlive(*identity)) {
      agent.pidfd = std::move(*pidfd);
      Watch(std::move(agent));
      return found_();
    }
  }
  if (!attempt_.files.IsLocked()) return Clear();
  Again(kFindInterval, &AttemptWatch::FindAgent);
}

void AttemptWatch::Watch(AgentProcess agent) {
  state_ = State::kRunning;
  agent_ = std::move(agent);
  if (stop_wanted_) SendSignal(agent_.pidfd.get(), SIGTERM);
  if (kill_wanted_) SendSignal(agent_.pidfd.get(), SIGKILL);
  next_ = loop_.WhenReadable(agent_.pidfd.get(), [this] { OnAgentEnded(); });
}

void AttemptWatch::OnAgentEnded() {
  const int code = agent_.is_child ? ReapChild(agent_.pidfd.get()) : -1;
  next_.reset();
  agent_ = AgentProcess();
  if (code == attempt::kAgentNotNeeded) {
    state_ = State::kFindingAgent;
    return FindAgent();
  }
  Clear();
}

void AttemptWatch::ClearStep() {
  const bool reported = attempt_.files.ReadReport().has_value();
  bool in_cgroup = false;
  for (const auto& cgroup : attempt_.cgroups) in_cgroup = in_cgroup || !IsCgroupEmpty(cgroup);
  // After a report, only what the kernel itself lists is doubted: to read every process's
  // environment after every replica would cost more than it finds.
  if (reported && !in_cgroup) return RemoveRemains();
  if (killer_->Step()) {
    if (killer_->killed_count() > 0) {
      LogWarning("{}: its agent is gone; {} of its processes were ended", attempt_.name,
                 killer_->killed_count());
    }
    return RemoveRemains();
  }
  if (++clear_steps_ == kQuickClearSteps) {
    LogError("{}: some of its processes cannot be killed; still trying", attempt_.name);
  }
  Again(clear_steps_ < kQuickClearSteps ? kClearInterval : kSlowClearInterval,
        &AttemptWatch::ClearStep);
}

void AttemptWatch::RemoveRemains() {
  // What a program left may be many files. The closure does not refer to this object.
  loop_.InBackground([files = attempt_.files, cgroups = attempt_.cgroups,
                      name = attempt_.name] { engine::RemoveRemains(files, cgroups, name); },
                     [weak = std::weak_ptr<int>(alive_), this] {
                       if (!weak.expired()) End();
                     });
}

void AttemptWatch::End() {
  state_ = State::kEnded;
  // The callback may destroy this object.
  const auto ended = std::exchange(ended_, nullptr);
  if (ended) ended();
}

void AttemptWatch::Again(milliseconds delay, void (AttemptWatch::*step)()) {
  next_ = loop_.After(delay, [this, step] { (this->*step)(); });
}

void RemoveRemains(const attempt::AttemptFiles& files,
                   const std::vector<std::filesystem::path>& cgroups, const std::string& name) {
  for (const auto& path : {files.work(), files.tmp()}) {
    if (const Status removed = RemoveTree(path); !removed) {
      LogWarning("{}: {}", name, removed.error().message);
    }
  }
  ::rmdir(files.log_storage().c_str());  // only if nothing was written there
  for (const auto& cgroup : cgroups) {
    if (!RemoveCgroup(cgroup)) LogWarning("{}: {} cannot be removed", name, cgroup.string());
  }
}

}  // namespace muster::engine
