#include "sim/lifecycle_world.h"

#include <fmt/core.h>

#include <algorithm>

namespace muster::sim {
namespace {

using job::ExitKind;
using job::JobState;
using job::ReplicaId;
using std::chrono::seconds;

constexpr int kWildStepsMax = 120;
constexpr int kCalmStepsMax = 5'000;
constexpr ReplicaId kPrimary{.pool = 0, .index = 0};

std::string Describe(const job::Event& event) {
  struct Describer {
    std::string operator()(const job::event::Admitted&) { return "admitted"; }
    std::string operator()(const job::event::CancelRequested&) { return "cancel"; }
    std::string operator()(const job::event::CannotRun&) { return "cannot run"; }
    std::string operator()(const job::event::Tick&) { return "tick"; }
    std::string operator()(const job::event::ReplicaStarted& e) {
      return fmt::format("{}#{} started", ReplicaName(e.replica), e.attempt);
    }
    std::string operator()(const job::event::ReplicaExited& e) {
      return fmt::format("{}#{} {} {}", ReplicaName(e.replica), e.attempt,
                         ExitKindName(e.cause.kind), e.cause.status);
    }
    std::string operator()(const job::event::HostLost& e) {
      return fmt::format("{}#{} host lost", ReplicaName(e.replica), e.attempt);
    }
  };
  return std::visit(Describer{}, event);
}

}  // namespace

World::World(uint64_t seed, bool verbose, Coverage& coverage)
    : random_(seed), verbose_(verbose), coverage_(coverage) {
  crash_percent_ = static_cast<int>(Random(3)) * 20;
  fault_percent_ = static_cast<int>(Random(4)) * 15;
  if (Chance(15)) {  // a bad day for machines
    host_loss_percent_ = 90;
    fault_percent_ = 80;
  }
  cancel_permille_ = Chance(40) ? 20 : 0;
  job::SchedulingRules& rules = plan_.scheduling;
  rules.timeout = seconds(Chance(30) ? 20 + Random(100) : 1'000'000);
  rules.disable_retries = Chance(15);
  rules.restart_job_on_worker_restart = Chance(25);
  if (Chance(20)) rules.max_wait = seconds(Random(30));
  for (int pool = 0; pool < 4; ++pool) {
    const int replicas = pool == 0 ? 1 : static_cast<int>(Random(4)) - 1;
    if (replicas <= 0) continue;
    job::PoolPlan& added = plan_.pools.emplace_back();
    added.pool = pool;
    added.replica_count = replicas;
  }
  job_.emplace(plan_, now_);
  saved_ = job_->Save();
  oracle_.emplace(rules);
}

// Its own arithmetic, so that a seed means the same with every standard library.
uint64_t World::Random(uint64_t below) { return random_() % below; }

std::optional<std::string> World::Run() {
  const int wild_steps = static_cast<int>(Random(kWildStepsMax));
  for (int i = 0; i < wild_steps && !wrong_; ++i) Wreak();
  int steps = 0;
  while (!wrong_ && (!IsTerminal(job_->state()) || !mail_.empty())) {
    if (++steps > kCalmStepsMax) Wrong("the job never ends");
    Calm();
  }
  if (!wrong_) CheckEnd();
  for (int i = 0; i < 20 && !wrong_; ++i) Wreak();  // the dead stay dead
  return wrong_;
}

// ---- what happens

void World::Wreak() {
  now_ += std::chrono::milliseconds(Random(2'000));
  if (Chance(1)) now_ -= seconds(30);  // the administrator sets the clock
  if (Random(1000) < static_cast<uint64_t>(cancel_permille_)) Mail(job::event::CancelRequested{});
  if (Random(1000) < 3) Mail(job::event::CannotRun{{Code::kFailedPrecondition, "no such image"}});
  if (Chance(5)) MailNonsense();
  if (Chance(3)) Mail(job::event::Tick{});  // too early, mostly
  if (job_->NextDeadline() && now_ >= *job_->NextDeadline() && Chance(80)) {
    Mail(job::event::Tick{});
  }
  if (job_->state() == JobState::kQueued && Chance(30)) Mail(job::event::Admitted{});

  std::vector<Key> alive = Alive();
  if (!alive.empty() && Chance(50)) {
    const Key& key = alive[Random(alive.size())];
    MoveAttempt(key, attempts_[key]);
  }
  while (!mail_.empty() && Chance(60) && !wrong_) Deliver(Random(mail_.size()), true);
}

void World::Calm() {
  now_ += seconds(1);
  if (job_->NextDeadline() && now_ >= *job_->NextDeadline()) Mail(job::event::Tick{});
  if (job_->state() == JobState::kQueued) Mail(job::event::Admitted{});
  for (const Key& key : Alive()) {
    Attempt& attempt = attempts_[key];
    if (attempt.is_told_to_stop) {
      End(key, attempt, ExitKind::kStopped, 143);
    } else if (!attempt.is_up) {
      attempt.is_up = true;
      Mail(job::event::ReplicaStarted{key.first, key.second});
    } else if (key.first == kPrimary && job_->state() == JobState::kRunning) {
      End(key, attempt, ExitKind::kExited, 0);
    }
  }
  if (!mail_.empty()) Deliver(0, false);
}

void World::MoveAttempt(const Key& key, Attempt& attempt) {
  const bool fault = Chance(fault_percent_);
  if (attempt.is_told_to_stop && Chance(70)) {
    End(key, attempt, ExitKind::kStopped, Chance(10) ? 0 : 143);
    return;
  }
  if (fault && Chance(host_loss_percent_)) return LoseHost(key, attempt);
  if (fault && Chance(20)) {
    return End(key, attempt, attempt.is_up ? ExitKind::kOutOfMemory : ExitKind::kNeverStarted,
               attempt.is_up ? 137 : 127);
  }
  if (fault && Chance(20)) return End(key, attempt, ExitKind::kAgentLost, 137);
  const bool is_too_fast = !attempt.is_up && Chance(15);  // it ends before its start is reported
  if (!attempt.is_up) {
    attempt.is_up = true;
    if (!is_too_fast) return Mail(job::event::ReplicaStarted{key.first, key.second});
  }
  if (fault || is_too_fast || Chance(10)) {
    constexpr int kStatuses[] = {0, 0, 0, 1, 2, 6, 11, 134, 139, 139, 139, 137, 255};
    End(key, attempt, ExitKind::kExited, kStatuses[Random(std::size(kStatuses))]);
  }
}

void World::End(const Key& key, Attempt& attempt, ExitKind kind, int status) {
  attempt.is_over = true;
  Mail(job::event::ReplicaExited{
      key.first, key.second, {.kind = kind, .status = status, .detail = Chance(50) ? "why" : ""}});
}

void World::LoseHost(const Key& key, Attempt& attempt) {
  attempt.is_over = true;
  Mail(job::event::HostLost{key.first, key.second, "node7"});
}

// About attempts that were, will be, or never can be.
void World::MailNonsense() {
  const ReplicaId replica{static_cast<int>(Random(5)), static_cast<int>(Random(3))};
  const auto found = job_->replicas().find(replica);
  const int current = found == job_->replicas().end() ? 0 : found->second.attempt;
  const bool is_current_over =
      found == job_->replicas().end() || found->second.state == job::AttemptState::kEnded;
  const int attempt = is_current_over && Chance(50) ? current : Chance(50) ? current - 1 : -1;
  switch (Random(3)) {
    case 0:
      return Mail(job::event::ReplicaStarted{replica, attempt});
    case 1:
      return Mail(job::event::HostLost{replica, attempt, "node8"});
    default:
      return Mail(job::event::ReplicaExited{
          replica,
          attempt,
          {.kind = ExitKind::kExited, .status = Chance(50) ? 0 : 1, .detail = "stale"}});
  }
}

std::vector<World::Key> World::Alive() const {
  std::vector<Key> alive;
  for (const auto& [key, attempt] : attempts_) {
    if (!attempt.is_over) alive.push_back(key);
  }
  return alive;
}

// ---- the control plane

void World::Deliver(size_t i, bool may_repeat) {
  const job::Event event = mail_[i];
  if (!may_repeat || Chance(90)) mail_.erase(mail_.begin() + static_cast<std::ptrdiff_t>(i));
  Handle(event);
}

void World::Handle(const job::Event& event) {
  const job::Lifecycle before = *job_;
  const Effect expected = oracle_->Expect(before, event, now_);
  const job::Reaction reaction = job_->Handle(event, now_);
  Trace(fmt::format("{} → {} ({})", Describe(event), static_cast<int>(job_->state()),
                    EffectName(expected)));
  if (auto wrong = oracle_->Check(before, *job_, event, expected, reaction)) {
    return Wrong(fmt::format("{}: {}", Describe(event), *wrong));
  }
  if (Chance(crash_percent_) && Chance(30)) {
    // Killed before it saved: nobody was answered, so the event comes again.
    coverage_.Count("crash before saving");
    Mail(event);
    Reload(saved_);
    return CarryOut(job_->Outstanding());
  }
  saved_ = job_->Save();
  oracle_->Commit(*job_, event, expected);
  if (expected != Effect::kNone) coverage_.Count(std::string(EffectName(expected)));
  if (Chance(crash_percent_)) {
    coverage_.Count("crash after saving");
    const size_t done = Random(reaction.actions.size() + 1);
    CarryOut(
        {reaction.actions.begin(), reaction.actions.begin() + static_cast<std::ptrdiff_t>(done)});
    Reload(saved_);
    return CarryOut(job_->Outstanding());
  }
  CarryOut(reaction.actions);
}

void World::Reload(const std::string& saved) {
  Result<job::Lifecycle> restored = job::Lifecycle::Restore(saved);
  if (!restored)
    return Wrong(fmt::format("cannot restore {}: {}", saved, restored.error().message));
  if (restored->Save() != saved) return Wrong("what is restored is not what was saved");
  job_ = *std::move(restored);
}

void World::CarryOut(const std::vector<job::Action>& actions) {
  for (const job::Action& action : actions) {
    if (wrong_) return;
    std::visit([this](const auto& alternative) { CarryOut(alternative); }, action);
  }
}

void World::CarryOut(const job::action::StartReplica& start) {
  const Key key{start.replica, start.attempt};
  Trace(fmt::format("  start {}#{}", ReplicaName(start.replica), start.attempt));
  if (is_released_) return Wrong("a start after the end");
  if (attempts_.contains(key)) return;  // the engine starts an attempt once
  for (const auto& [other, attempt] : attempts_) {
    if (other.first != start.replica) continue;
    if (!attempt.is_over) return Wrong(ReplicaName(start.replica) + " runs twice at once");
    if (other.second >= start.attempt) return Wrong(ReplicaName(start.replica) + " goes back");
  }
  attempts_[key] = {};
}

void World::CarryOut(const job::action::StopReplica& stop) {
  Trace(fmt::format("  stop {}#{}", ReplicaName(stop.replica), stop.attempt));
  const auto found = attempts_.find({stop.replica, stop.attempt});
  if (found == attempts_.end()) return Wrong("a stop of what was never started");
  found->second.is_told_to_stop = true;
}

void World::CarryOut(const job::action::ReleaseGang&) {
  Trace("  release");
  if (!Alive().empty()) return Wrong("places are released though something runs");
  is_released_ = true;
}

// ---- checks

void World::CheckEnd() {
  if (oracle_->decided() != job_->state()) return Wrong("the end is not what was decided first");
  if (!is_released_) return Wrong("the places were never released");
  if (!Alive().empty()) return Wrong("something runs after the end");
  coverage_.Count(fmt::format("ended in state {}", static_cast<int>(job_->state())));
  if (job_->error()) coverage_.Count(fmt::format("error {}", CodeName(job_->error()->code)));
  if (oracle_->job_restarts() == job::kJobRestartsMax) coverage_.Count("all job restarts used");
  if (oracle_->most_replica_restarts() == job::kReplicaRestartsMax) {
    coverage_.Count("all restarts of a replica used");
  }
}

void World::Wrong(const std::string& what) {
  Trace("WRONG: " + what);
  if (!wrong_) wrong_ = what;
}

void World::Trace(const std::string& line) {
  if (verbose_) fmt::print("{}\n", line);
}

}  // namespace muster::sim
