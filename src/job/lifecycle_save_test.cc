#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

#include "job/lifecycle.h"

namespace muster::job {
namespace {

using std::chrono::seconds;
using Json = nlohmann::json;

constexpr Time kCreated{seconds(1'700'000'000)};

JobPlan ChiefAndWorkers(int workers) {
  JobPlan plan;
  for (int pool = 0; pool < 2; ++pool) {
    PoolPlan& added = plan.pools.emplace_back();
    added.pool = pool;
    added.replica_count = pool == 0 ? 1 : workers;
  }
  return plan;
}

// A lifecycle after any few events, sensible or not.
rc::Gen<Lifecycle> AnyLifecycle() {
  return rc::gen::exec([] {
    JobPlan plan = ChiefAndWorkers(*rc::gen::inRange(0, 3));
    plan.scheduling.timeout = seconds(*rc::gen::inRange(1, 100));
    plan.scheduling.disable_retries = *rc::gen::inRange(0, 4) == 0;
    plan.scheduling.restart_job_on_worker_restart = *rc::gen::arbitrary<bool>();
    if (*rc::gen::arbitrary<bool>()) plan.scheduling.max_wait = seconds(50);
    Lifecycle job(plan, kCreated);
    Time now = kCreated;
    const int events = *rc::gen::inRange(0, 12);
    for (int i = 0; i < events; ++i) {
      now += seconds(*rc::gen::inRange(0, 10));
      const ReplicaId replica{*rc::gen::inRange(0, 2), 0};
      const auto found = job.replicas().find(replica);
      const int attempt = found == job.replicas().end() ? 0 : found->second.attempt;
      const ExitCause cause{*rc::gen::element(ExitKind::kExited, ExitKind::kStopped),
                            *rc::gen::element(0, 1, 139), *rc::gen::arbitrary<std::string>()};
      switch (*rc::gen::weightedElement<int>(
          {{6, 0}, {6, 1}, {3, 2}, {2, 3}, {1, 4}, {1, 5}, {1, 6}})) {
        case 0:
          job.Handle(event::Admitted{}, now);
          break;
        case 1:
          job.Handle(event::ReplicaStarted{replica, attempt}, now);
          break;
        case 2:
          job.Handle(event::ReplicaExited{replica, attempt, cause}, now);
          break;
        case 3:
          job.Handle(event::HostLost{replica, attempt, cause.detail}, now);
          break;
        case 4:
          job.Handle(event::CancelRequested{}, now);
          break;
        case 5:
          job.Handle(event::CannotRun{{Code::kNotFound, cause.detail}}, now);
          break;
        default:
          job.Handle(event::Tick{}, now);
          break;
      }
    }
    return job;
  });
}

void AssertSame(const Lifecycle& a, const Lifecycle& b) {
  RC_ASSERT(a.Save() == b.Save());
  RC_ASSERT(a.state() == b.state());
  RC_ASSERT(a.error() == b.error());
  RC_ASSERT(a.start_time() == b.start_time());
  RC_ASSERT(a.end_time() == b.end_time());
  RC_ASSERT(a.NextDeadline() == b.NextDeadline());
  RC_ASSERT(a.ending() == b.ending());
}

RC_GTEST_PROP(LifecycleSaveProperty, RestoreGivesBackTheSame, ()) {
  const Lifecycle job = *AnyLifecycle();
  const Result<Lifecycle> restored = Lifecycle::Restore(job.Save());
  RC_ASSERT(restored.has_value());
  AssertSame(job, *restored);
}

// Any one value replaced, any member missing or added: an error or a state that saves and restores,
// never a crash.
RC_GTEST_PROP(LifecycleSaveProperty, DamagedTextIsAnErrorOrAnotherState, ()) {
  Json json = Json::parse((*AnyLifecycle()).Save());
  const auto keys = [&] {
    std::vector<std::string> names;
    for (const auto& [key, value] : json.items()) names.push_back(key);
    return names;
  }();
  const std::string key = *rc::gen::elementOf(keys);
  const Json values[] = {Json(),
                         Json(-1),
                         Json(0),
                         Json(5),
                         Json(1e300),
                         Json("x"),
                         Json(true),
                         Json::array(),
                         Json::object(),
                         Json(uint64_t{1} << 63),
                         Json::array({Json::array({0, 0, 0, 2, 0})})};
  const int damage = *rc::gen::inRange(0, 3);
  if (damage == 0) json[key] = values[*rc::gen::inRange<size_t>(0, std::size(values))];
  if (damage == 1) json.erase(key);
  if (damage == 2) json["more"] = 1;
  const Result<Lifecycle> restored = Lifecycle::Restore(json.dump());
  if (damage != 0) RC_ASSERT(!restored.has_value());
  if (restored) {
    const Result<Lifecycle> again = Lifecycle::Restore(restored->Save());
    RC_ASSERT(again.has_value());
    AssertSame(*restored, *again);
  } else {
    RC_ASSERT(restored.error().code == Code::kInternal);
  }
}

RC_GTEST_PROP(LifecycleSaveProperty, NoTextCrashesRestore, (const std::string& text)) {
  RC_ASSERT(!Lifecycle::Restore(text).has_value());
}

TEST(LifecycleSaveTest, TextOfAnotherKindIsAnError) {
  for (const char* text : {"", "null", "{}", "[]", "42", "{\"version\":1}", "{"}) {
    const Result<Lifecycle> restored = Lifecycle::Restore(text);
    ASSERT_FALSE(restored.has_value()) << text;
    EXPECT_EQ(restored.error().code, Code::kInternal);
  }
  Json json = Json::parse(Lifecycle(ChiefAndWorkers(1), kCreated).Save());
  EXPECT_TRUE(Lifecycle::Restore(json.dump()).has_value());
  json["version"] = 2;
  EXPECT_FALSE(Lifecycle::Restore(json.dump()).has_value());
}

TEST(LifecycleSaveTest, StatesThatCannotBeAreErrors) {
  Lifecycle running(ChiefAndWorkers(1), kCreated);
  running.Handle(event::Admitted{}, kCreated);
  running.Handle(event::ReplicaStarted{{0, 0}, 0}, kCreated);
  running.Handle(event::ReplicaStarted{{1, 0}, 0}, kCreated);
  const Json good = Json::parse(running.Save());
  const std::pair<const char*, Json> wrong[] = {
      {"state", 1},
      {"state", 4},
      {"state", 6},
      {"state", 8},
      {"start", Json()},
      {"end", 1},
      {"restarting", true},
      {"outcome", 5},
      {"outcome", 3},
      {"job_restarts", 4},
      {"replicas", Json::array()},
      {"replicas", Json::array({{1, 0, 0, 1, 0}})},                    // no primary
      {"replicas", Json::array({{0, 0, 0, 1, 0}, {0, 0, 0, 1, 0}})},   // twice
      {"replicas", Json::array({{0, 0, 0, 1, 0}, {1, 0, -1, 3, 0}})},  // never started
      {"replicas", Json::array({{0, 0, 0, 2, 0}, {1, 0, 0, 1, 0}})},   // stopped for no reason
      {"replicas", Json::array({{0, 0, 0, 1, 6}})},
      {"replicas", Json::array({{0, 0, 0, 9, 0}})},
  };
  for (const auto& [key, value] : wrong) {
    Json json = good;
    json[key] = value;
    EXPECT_FALSE(Lifecycle::Restore(json.dump()).has_value()) << key << ": " << value;
  }
}

TEST(LifecycleSaveTest, WordsThatAreNoUtf8SurviveAsReplacements) {
  Lifecycle job(ChiefAndWorkers(0), kCreated);
  job.Handle(event::CannotRun{{Code::kNotFound, "\xff no"}}, kCreated);
  EXPECT_EQ(job.error()->message, "\xef\xbf\xbd no");
  EXPECT_EQ(Lifecycle::Restore(job.Save())->error(), job.error());
}

}  // namespace
}  // namespace muster::job
