#include "job/lifecycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/check.h"

namespace muster::job {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Time kCreated{seconds(1'700'000'000)};
constexpr ReplicaId kChief{0, 0};
constexpr ReplicaId kWorker0{1, 0};
constexpr ReplicaId kWorker1{1, 1};

JobPlan ChiefAndWorkers(int workers, SchedulingRules rules = {}) {
  JobPlan plan;
  plan.scheduling = rules;
  plan.pools.push_back({.pool = 0,
                        .role = Role::kPrimary,
                        .replica_count = 1,
                        .machine = {},
                        .accelerator_type = {},
                        .task = ContainerTask{},
                        .env = {}});
  if (workers > 0) {
    plan.pools.push_back({.pool = 1,
                          .role = Role::kWorker,
                          .replica_count = workers,
                          .machine = {},
                          .accelerator_type = {},
                          .task = ContainerTask{},
                          .env = {}});
  }
  return plan;
}

ExitCause Exit(int status, std::string detail = "") {
  return {.kind = ExitKind::kExited, .status = status, .detail = std::move(detail)};
}

ExitCause Stopped() { return {.kind = ExitKind::kStopped, .status = 143, .detail = ""}; }

std::string Describe(const Action& action) {
  if (const auto* start = std::get_if<action::StartReplica>(&action)) {
    return "start " + ReplicaName(start->replica) + "#" + std::to_string(start->attempt);
  }
  if (const auto* stop = std::get_if<action::StopReplica>(&action)) {
    return "stop " + ReplicaName(stop->replica) + "#" + std::to_string(stop->attempt);
  }
  return "release";
}

// A job and a clock; every event goes through Save and Restore.
class Job {
 public:
  explicit Job(const JobPlan& plan) : job_(plan, kCreated) {}

  std::vector<std::string> Do(const Event& event) {
    const Reaction reaction = job_.Handle(event, now_);
    Result<Lifecycle> restored = Lifecycle::Restore(job_.Save());
    MUSTER_CHECK(restored.has_value());
    job_ = *std::move(restored);
    for (const ServiceLine& line : reaction.lines) log_.push_back(line);
    std::vector<std::string> actions;
    for (const Action& action : reaction.actions) actions.push_back(Describe(action));
    return actions;
  }

  std::vector<std::string> Started(ReplicaId replica, int attempt = 0) {
    return Do(event::ReplicaStarted{replica, attempt});
  }
  std::vector<std::string> Exited(ReplicaId replica, ExitCause cause, int attempt = 0) {
    return Do(event::ReplicaExited{replica, attempt, std::move(cause)});
  }
  std::vector<std::string> HostLost(ReplicaId replica, int attempt = 0) {
    return Do(event::HostLost{replica, attempt, "node7"});
  }
  // Admitted and all replicas started, attempt 0.
  Job& Running() {
    Do(event::Admitted{});
    const auto replicas = job_.replicas();  // job_ is replaced meanwhile
    for (const auto& [replica, status] : replicas) Started(replica);
    MUSTER_CHECK(job_.state() == JobState::kRunning);
    return *this;
  }
  void Advance(Duration by) { now_ += by; }

  const Lifecycle* operator->() const { return &job_; }
  Time now() const { return now_; }
  std::vector<std::string> Lines() const {
    std::vector<std::string> texts;
    for (const ServiceLine& line : log_) texts.push_back(line.text);
    return texts;
  }
  const std::vector<ServiceLine>& log() const { return log_; }

 private:
  Lifecycle job_;
  Time now_ = kCreated;
  std::vector<ServiceLine> log_;
};

TEST(LifecycleTest, PrimarysExitWithZeroStopsTheOthersAndSucceeds) {
  Job job(ChiefAndWorkers(2));
  EXPECT_EQ(job->state(), JobState::kQueued);
  EXPECT_THAT(
      job.Do(event::Admitted{}),
      ElementsAre("start workerpool0-0#0", "start workerpool1-0#0", "start workerpool1-1#0"));
  EXPECT_EQ(job->state(), JobState::kPending);
  EXPECT_FALSE(job->start_time());
  job.Started(kWorker1);
  job.Started(kChief);
  EXPECT_EQ(job->state(), JobState::kPending);
  job.Advance(seconds(5));
  job.Started(kWorker0);
  EXPECT_EQ(job->state(), JobState::kRunning);
  EXPECT_EQ(job->start_time(), kCreated + seconds(5));

  job.Advance(seconds(60));
  EXPECT_THAT(job.Exited(kChief, Exit(0)),
              ElementsAre("stop workerpool1-0#0", "stop workerpool1-1#0"));
  EXPECT_TRUE(job->ending());
  EXPECT_EQ(job->state(), JobState::kRunning);
  EXPECT_THAT(job.Exited(kWorker0, Stopped()), IsEmpty());
  EXPECT_FALSE(job->end_time());
  EXPECT_THAT(job.Exited(kWorker1, Exit(1)), ElementsAre("release"));
  EXPECT_EQ(job->state(), JobState::kSucceeded);
  EXPECT_EQ(job->end_time(), kCreated + seconds(65));
  EXPECT_FALSE(job->error());
  EXPECT_THAT(job.Lines(),
              ElementsAre("Vertex AI is setting up this job.",
                          "Waiting for training program to start.", "Job is running.",
                          "Tearing down training program.", "Job completed successfully."));
}

TEST(LifecycleTest, ProgramsThatEndBeforeTheirStartIsKnown) {
  Job alone(ChiefAndWorkers(0));
  alone.Do(event::Admitted{});
  alone.Advance(seconds(1));
  EXPECT_THAT(alone.Exited(kChief, Exit(0)), ElementsAre("release"));
  EXPECT_EQ(alone->state(), JobState::kSucceeded);
  EXPECT_EQ(alone->start_time(), kCreated + seconds(1));
  EXPECT_THAT(alone.Lines(), testing::Contains("Job is running."));

  Job others_start(ChiefAndWorkers(1));
  others_start.Do(event::Admitted{});
  EXPECT_THAT(others_start.Exited(kChief, Exit(0)), ElementsAre("stop workerpool1-0#0"));
  EXPECT_TRUE(others_start->start_time());
  EXPECT_THAT(others_start.Started(kWorker0), IsEmpty());  // too late to matter
  EXPECT_EQ(others_start->replicas().at(kWorker0).state, AttemptState::kStopping);
  EXPECT_THAT(others_start.Exited(kWorker0, Stopped()), ElementsAre("release"));
  EXPECT_EQ(others_start->state(), JobState::kSucceeded);

  Job worker_first(ChiefAndWorkers(1));
  worker_first.Do(event::Admitted{});
  worker_first.Exited(kWorker0, Exit(0));
  EXPECT_EQ(worker_first->state(), JobState::kPending);
  worker_first.Started(kChief);
  EXPECT_EQ(worker_first->state(), JobState::kRunning);
}

TEST(LifecycleTest, WorkerThatIsDoneLetsTheJobGoOn) {
  Job job = Job(ChiefAndWorkers(1)).Running();
  EXPECT_THAT(job.Exited(kWorker0, Exit(0)), IsEmpty());
  EXPECT_EQ(job->state(), JobState::kRunning);
  EXPECT_FALSE(job->ending());
  EXPECT_THAT(job.Exited(kChief, Exit(0)), ElementsAre("release"));
  EXPECT_EQ(job->state(), JobState::kSucceeded);
}

TEST(LifecycleTest, AnyOtherExitFailsTheJobAndNamesTheReplica) {
  for (const int status : {1, 2, 5, 7, 127, 137, 143, 255}) {
    for (const ReplicaId replica : {kChief, kWorker1}) {
      Job job = Job(ChiefAndWorkers(2)).Running();
      job.Exited(replica, Exit(status, "ValueError: bad"));
      EXPECT_TRUE(job->ending());
      for (const ReplicaId other : {kChief, kWorker0, kWorker1}) job.Exited(other, Stopped());
      EXPECT_EQ(job->state(), JobState::kFailed);
      ASSERT_TRUE(job->error());
      EXPECT_EQ(job->error()->code, Code::kInvalidArgument);
      EXPECT_EQ(job->error()->message,
                fmt::format("The replica {} exited with a non-zero status of {}. Termination "
                            "reason: Error. \nValueError: bad",
                            ReplicaName(replica), status));
      EXPECT_EQ(job.log().back().text, "Job failed.");
      EXPECT_TRUE(job.log().back().is_error);
    }
  }
}

TEST(LifecycleTest, FirstFailureIsTheVerdict) {
  Job job = Job(ChiefAndWorkers(2)).Running();
  job.Exited(kWorker1, Exit(1, "first"));
  job.Exited(kWorker0, Exit(2, "second"));
  job.Exited(kChief, Exit(0));
  EXPECT_EQ(job->state(), JobState::kFailed);
  EXPECT_THAT(job->error()->message, HasSubstr("workerpool1-1"));
  EXPECT_THAT(job->error()->message, HasSubstr("first"));
}

TEST(LifecycleTest, WhatNeverStartedRanOutOfMemoryOrLostItsAgentFailsTheJob) {
  const std::pair<ExitCause, std::string> cases[] = {
      {{ExitKind::kNeverStarted, 127, "program \"trian.py\" was not found"},
       "The replica workerpool1-0 could not be started: program \"trian.py\" was not found"},
      {{ExitKind::kOutOfMemory, 137, ""},
       "The replica workerpool1-0 ran out of memory and exited with a non-zero status of 137."},
      {{ExitKind::kAgentLost, 137, ""},
       "The replica workerpool1-0 exited with a non-zero status of 137. Termination reason: its "
       "agent was killed"},
      {{ExitKind::kStopped, 143, ""},
       "The replica workerpool1-0 exited with status 143. Termination reason: it was stopped from "
       "outside"},
      {{ExitKind::kStopped, 0, ""}, "it was stopped from outside"},
  };
  for (const auto& [cause, message] : cases) {
    Job job(ChiefAndWorkers(1));
    job.Do(event::Admitted{});
    EXPECT_THAT(job.Exited(kWorker0, cause), ElementsAre("stop workerpool0-0#0"));
    EXPECT_THAT(job.Exited(kChief, Stopped()), ElementsAre("release"));
    EXPECT_EQ(job->state(), JobState::kFailed);
    EXPECT_THAT(job->error()->message, HasSubstr(message));
  }
}

TEST(LifecycleTest, PrimaryThatWasStoppedFromOutsideDidNotSucceed) {
  Job job = Job(ChiefAndWorkers(0)).Running();
  job.Exited(kChief, {.kind = ExitKind::kStopped, .status = 0, .detail = ""});
  EXPECT_EQ(job->state(), JobState::kFailed);
}

TEST(LifecycleTest, CrashesRestartTheJobThreeTimes) {
  for (const int status : {6, 134, 11, 139}) {
    Job job = Job(ChiefAndWorkers(1)).Running();
    for (int attempt = 0; attempt < 3; ++attempt) {
      EXPECT_THAT(job.Exited(kWorker0, Exit(status), attempt),
                  ElementsAre("stop workerpool0-0#" + std::to_string(attempt)));
      EXPECT_EQ(job->state(), JobState::kPending);
      EXPECT_FALSE(job->ending());
      // The primary's peer is gone: that it fails too is a consequence.
      const std::string next = "#" + std::to_string(attempt + 1);
      EXPECT_THAT(job.Exited(kChief, Exit(1, "peer is gone"), attempt),
                  ElementsAre("start workerpool0-0" + next, "start workerpool1-0" + next));
      job.Started(kChief, attempt + 1);
      job.Started(kWorker0, attempt + 1);
      EXPECT_EQ(job->state(), JobState::kRunning);
      EXPECT_EQ(job->start_time(), kCreated);
    }
    job.Exited(kWorker0, Exit(status), 3);
    EXPECT_TRUE(job->ending());
    job.Exited(kChief, Stopped(), 3);
    EXPECT_EQ(job->state(), JobState::kFailed);
    EXPECT_THAT(job->error()->message, HasSubstr(fmt::format("status of {}", status)));
    EXPECT_THAT(job->error()->message, HasSubstr("restarted 3 times"));
  }
}

TEST(LifecycleTest, RestartOfAJobWhoseReplicasAllEndedIsImmediate) {
  Job job = Job(ChiefAndWorkers(1)).Running();
  job.Exited(kWorker0, Exit(0));
  EXPECT_THAT(job.Exited(kChief, Exit(139)),
              ElementsAre("start workerpool0-0#1", "start workerpool1-0#1"));
  EXPECT_EQ(job->state(), JobState::kPending);
}

TEST(LifecycleTest, DisabledRetriesMakeCrashesAndLostHostsFinal) {
  SchedulingRules rules;
  rules.disable_retries = true;
  rules.restart_job_on_worker_restart = true;  // overridden
  Job crashed = Job(ChiefAndWorkers(0, rules)).Running();
  crashed.Exited(kChief, Exit(139));
  EXPECT_EQ(crashed->state(), JobState::kFailed);

  Job lost = Job(ChiefAndWorkers(0, rules)).Running();
  lost.HostLost(kChief);
  EXPECT_EQ(lost->state(), JobState::kFailed);
  EXPECT_EQ(lost->error()->code, Code::kUnavailable);
  EXPECT_THAT(lost->error()->message, HasSubstr("workerpool0-0"));
  EXPECT_THAT(lost->error()->message, HasSubstr("node7"));
}

TEST(LifecycleTest, LostHostRestartsTheReplicaFiveTimesThenTheJob) {
  Job job = Job(ChiefAndWorkers(1)).Running();
  int attempt = 0;
  for (; attempt < 5; ++attempt) {
    EXPECT_THAT(job.HostLost(kWorker0, attempt),
                ElementsAre("start workerpool1-0#" + std::to_string(attempt + 1)));
    EXPECT_EQ(job->state(), JobState::kRunning);
    job.Started(kWorker0, attempt + 1);
  }
  for (int restart = 0; restart < 3; ++restart, ++attempt) {
    EXPECT_THAT(job.HostLost(kWorker0, attempt),
                ElementsAre("stop workerpool0-0#" + std::to_string(restart)));
    EXPECT_EQ(job->state(), JobState::kPending);
    EXPECT_THAT(job.Exited(kChief, Stopped(), restart),
                ElementsAre("start workerpool0-0#" + std::to_string(restart + 1),
                            "start workerpool1-0#" + std::to_string(attempt + 1)));
  }
  job.HostLost(kWorker0, attempt);
  job.Exited(kChief, Stopped(), 3);
  EXPECT_EQ(job->state(), JobState::kFailed);
  EXPECT_THAT(job->error()->message, HasSubstr("The host of the replica workerpool1-0 was lost"));
}

TEST(LifecycleTest, LostHostRestartsTheWholeJobOnRequest) {
  SchedulingRules rules;
  rules.restart_job_on_worker_restart = true;
  Job job = Job(ChiefAndWorkers(1, rules)).Running();
  EXPECT_THAT(job.HostLost(kWorker0), ElementsAre("stop workerpool0-0#0"));
  EXPECT_THAT(job.HostLost(kChief), ElementsAre("start workerpool0-0#1", "start workerpool1-0#1"));
  EXPECT_EQ(job->state(), JobState::kPending);
}

TEST(LifecycleTest, ReplicaLostBeforeAllAreUpIsStartedAgain) {
  Job job(ChiefAndWorkers(1));
  job.Do(event::Admitted{});
  job.Started(kChief);
  EXPECT_THAT(job.HostLost(kWorker0), ElementsAre("start workerpool1-0#1"));
  EXPECT_EQ(job->state(), JobState::kPending);
  job.Started(kWorker0, 0);  // stale
  EXPECT_EQ(job->state(), JobState::kPending);
  job.Started(kWorker0, 1);
  EXPECT_EQ(job->state(), JobState::kRunning);
}

TEST(LifecycleTest, PrimaryThatSucceedsWhileTheJobRestartsEndsIt) {
  Job job = Job(ChiefAndWorkers(2)).Running();
  job.Exited(kWorker0, Exit(139));
  EXPECT_THAT(job.Exited(kChief, Exit(0)), IsEmpty());  // the other worker is being stopped already
  EXPECT_TRUE(job->ending());
  EXPECT_THAT(job.Exited(kWorker1, Stopped()), ElementsAre("release"));
  EXPECT_EQ(job->state(), JobState::kSucceeded);
}

TEST(LifecycleTest, PrimaryThatExitsWithZeroBecauseItWasStoppedDoesNot) {
  Job job = Job(ChiefAndWorkers(1)).Running();
  job.Exited(kWorker0, Exit(139));
  EXPECT_THAT(job.Exited(kChief, {.kind = ExitKind::kStopped, .status = 0, .detail = ""}),
              ElementsAre("start workerpool0-0#1", "start workerpool1-0#1"));
}

TEST(LifecycleTest, CancelInTheQueueEndsAtOnce) {
  Job job(ChiefAndWorkers(1));
  job.Advance(seconds(3));
  EXPECT_THAT(job.Do(event::CancelRequested{}), ElementsAre("release"));
  EXPECT_EQ(job->state(), JobState::kCancelled);
  EXPECT_EQ(job->error()->code, Code::kCancelled);
  EXPECT_EQ(job->end_time(), kCreated + seconds(3));
  EXPECT_FALSE(job->start_time());
  EXPECT_THAT(job.Do(event::Admitted{}), IsEmpty());  // the engine's answer came too late
  EXPECT_EQ(job->state(), JobState::kCancelled);
}

TEST(LifecycleTest, CancelStopsWhatRunsAndStaysThoughThePrimarySucceeds) {
  Job job = Job(ChiefAndWorkers(1)).Running();
  EXPECT_THAT(job.Do(event::CancelRequested{}),
              ElementsAre("stop workerpool0-0#0", "stop workerpool1-0#0"));
  EXPECT_EQ(job->state(), JobState::kCancelling);
  EXPECT_THAT(job.Do(event::CancelRequested{}), IsEmpty());
  EXPECT_THAT(job.Exited(kChief, Exit(0)), IsEmpty());
  EXPECT_THAT(job.Exited(kWorker0, Exit(1)), ElementsAre("release"));
  EXPECT_EQ(job->state(), JobState::kCancelled);
  EXPECT_THAT(job->error()->message, HasSubstr("CANCELED"));
  EXPECT_EQ(job.log().back().text, "Job cancelled.");
}

TEST(LifecycleTest, CancelWhileStartingAndWhileRestarting) {
  Job starting(ChiefAndWorkers(1));
  starting.Do(event::Admitted{});
  starting.Started(kChief);
  EXPECT_THAT(starting.Do(event::CancelRequested{}),
              ElementsAre("stop workerpool0-0#0", "stop workerpool1-0#0"));
  EXPECT_EQ(starting->state(), JobState::kCancelling);

  Job restarting = Job(ChiefAndWorkers(1)).Running();
  restarting.Exited(kWorker0, Exit(139));
  EXPECT_THAT(restarting.Do(event::CancelRequested{}), IsEmpty());  // is being stopped already
  EXPECT_EQ(restarting->state(), JobState::kCancelling);
  EXPECT_THAT(restarting.Exited(kChief, Stopped()), ElementsAre("release"));
  EXPECT_EQ(restarting->state(), JobState::kCancelled);
}

TEST(LifecycleTest, CancelAfterTheOutcomeIsDecidedChangesNothing) {
  Job succeeded = Job(ChiefAndWorkers(1)).Running();
  succeeded.Exited(kChief, Exit(0));
  EXPECT_THAT(succeeded.Do(event::CancelRequested{}), IsEmpty());
  succeeded.Exited(kWorker0, Stopped());
  EXPECT_EQ(succeeded->state(), JobState::kSucceeded);
  EXPECT_THAT(succeeded.Do(event::CancelRequested{}), IsEmpty());
  EXPECT_EQ(succeeded->state(), JobState::kSucceeded);
}

TEST(LifecycleTest, TimeoutCountsFromTheFirstRunning) {
  SchedulingRules rules;
  rules.timeout = seconds(100);
  Job job(ChiefAndWorkers(1, rules));
  EXPECT_FALSE(job->NextDeadline());
  job.Do(event::Admitted{});
  EXPECT_EQ(job->NextDeadline(), job.now() + seconds(100));  // setting up is bounded too
  job.Advance(seconds(99));
  job.Started(kChief);
  job.Started(kWorker0);
  const Time deadline = job.now() + seconds(100);
  EXPECT_EQ(job->NextDeadline(), deadline);
  job.Advance(seconds(60));
  job.Exited(kWorker0, Exit(139));
  job.Exited(kChief, Stopped());
  EXPECT_EQ(job->NextDeadline(), deadline);  // a restart wins no time

  job.Advance(seconds(39));
  EXPECT_THAT(job.Do(event::Tick{}), IsEmpty());  // early
  job.Advance(seconds(1));
  EXPECT_THAT(job.Do(event::Tick{}), ElementsAre("stop workerpool0-0#1", "stop workerpool1-0#1"));
  EXPECT_FALSE(job->NextDeadline());
  job.Exited(kChief, Exit(0), 1);
  job.Exited(kWorker0, Stopped(), 1);
  EXPECT_EQ(job->state(), JobState::kFailed);
  EXPECT_EQ(job->error()->code, Code::kDeadlineExceeded);
  EXPECT_THAT(job->error()->message, HasSubstr("100 s"));
}

TEST(LifecycleTest, WaitForResourcesIsBoundedOnlyOnRequest) {
  EXPECT_FALSE(Job(ChiefAndWorkers(0))->NextDeadline());
  SchedulingRules rules;
  rules.max_wait = seconds(0);
  EXPECT_FALSE(Job(ChiefAndWorkers(0, rules))->NextDeadline());

  rules.max_wait = seconds(30);
  Job job(ChiefAndWorkers(0, rules));
  EXPECT_EQ(job->NextDeadline(), kCreated + seconds(30));
  job.Advance(seconds(30));
  EXPECT_THAT(job.Do(event::Tick{}), ElementsAre("release"));
  EXPECT_EQ(job->state(), JobState::kFailed);
  EXPECT_EQ(job->error()->code, Code::kResourceExhausted);

  Job admitted(ChiefAndWorkers(0, rules));
  admitted.Do(event::Admitted{});
  EXPECT_EQ(admitted->NextDeadline(), admitted.now() + rules.timeout);
}

TEST(LifecycleTest, ReplicasThatNeverComeUpEndTheJobAtItsTimeout) {
  SchedulingRules rules;
  rules.timeout = seconds(100);
  Job job(ChiefAndWorkers(1, rules));
  job.Do(event::Admitted{});
  job.Started(kChief);
  job.Advance(seconds(100));
  EXPECT_THAT(job.Do(event::Tick{}), ElementsAre("stop workerpool0-0#0", "stop workerpool1-0#0"));
  job.Exited(kChief, Stopped());
  job.Exited(kWorker0, Stopped());
  EXPECT_EQ(job->state(), JobState::kFailed);
  EXPECT_THAT(job->error()->message, HasSubstr("did not get all its replicas up within"));
}

TEST(LifecycleTest, WhatCannotRunFailsWithTheGivenError) {
  const Error error{Code::kFailedPrecondition, "no environment is configured for gcr.io/p/i"};
  Job queued(ChiefAndWorkers(0));
  EXPECT_THAT(queued.Do(event::CannotRun{error}), ElementsAre("release"));
  EXPECT_EQ(queued->state(), JobState::kFailed);
  EXPECT_EQ(queued->error(), error);

  Job admitted(ChiefAndWorkers(0));
  admitted.Do(event::Admitted{});
  EXPECT_THAT(admitted.Do(event::CannotRun{{Code::kOk, "odd"}}),
              ElementsAre("stop workerpool0-0#0"));
  admitted.Exited(kChief, Stopped());
  EXPECT_EQ(admitted->error(), (Error{Code::kInternal, "odd"}));
}

TEST(LifecycleTest, EventsAboutOtherAttemptsAreIgnored) {
  Job job = Job(ChiefAndWorkers(1)).Running();
  EXPECT_THAT(job.Exited(kWorker0, Exit(1), 1), IsEmpty());      // to come
  EXPECT_THAT(job.Exited(ReplicaId{3, 9}, Exit(1)), IsEmpty());  // no such replica
  job.HostLost(kWorker0);
  EXPECT_THAT(job.Exited(kWorker0, Exit(1), 0), IsEmpty());  // gone
  EXPECT_THAT(job.HostLost(kWorker0, 0), IsEmpty());
  EXPECT_FALSE(job->ending());
  EXPECT_THAT(job.Do(event::Admitted{}), IsEmpty());
  EXPECT_EQ(job->replicas().at(kWorker0).attempt, 1);
}

TEST(LifecycleTest, OutstandingActionsAreThoseACrashMayHaveLost) {
  const auto outstanding = [](const Job& job) {
    std::vector<std::string> texts;
    for (const Action& action : job->Outstanding()) texts.push_back(Describe(action));
    return texts;
  };
  Job job(ChiefAndWorkers(1));
  EXPECT_THAT(outstanding(job), IsEmpty());
  job.Do(event::Admitted{});
  EXPECT_THAT(outstanding(job), ElementsAre("start workerpool0-0#0", "start workerpool1-0#0"));
  job.Started(kChief);
  EXPECT_THAT(outstanding(job), ElementsAre("start workerpool1-0#0"));
  job.Do(event::CancelRequested{});
  EXPECT_THAT(outstanding(job), ElementsAre("stop workerpool0-0#0", "stop workerpool1-0#0"));
  job.Exited(kChief, Stopped());
  job.Exited(kWorker0, Stopped());
  EXPECT_THAT(outstanding(job), ElementsAre("release"));
}

TEST(LifecycleTest, ClockThatIsSetBackDoesNotEndAJobBeforeItsStart) {
  Job job = Job(ChiefAndWorkers(0)).Running();
  job.Advance(-hours(1));
  job.Exited(kChief, Exit(0));
  EXPECT_EQ(job->end_time(), job->start_time());
}

TEST(ExitMessageTest, SaysMoreThanTheStatusWhereItCan) {
  EXPECT_EQ(ExitMessage({1, 1}, Exit(1)),
            "The replica workerpool1-1 exited with a non-zero status of 1. Termination reason: "
            "Error.");
  EXPECT_EQ(ExitMessage({0, 0}, Exit(137)),
            "The replica workerpool0-0 exited with a non-zero status of 137. Termination reason: "
            "Error. \nIt was ended by signal 9 (SIGKILL).");
  EXPECT_THAT(ExitMessage({0, 0}, Exit(1, "cut in \xe2\x82")), HasSubstr("cut in \xef\xbf\xbd"));
}

}  // namespace
}  // namespace muster::job
