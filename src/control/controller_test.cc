#include "control/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <filesystem>
#include <future>
#include <thread>

#include "base/file.h"
#include "control/fake_engine.h"

namespace muster::control {
namespace {

namespace aip = google::cloud::aiplatform::v1;
namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kParent[] = "projects/p/locations/us-central1";
constexpr auto kDeadline = std::chrono::seconds(10);

// A Controller with its loop's thread; dropped without notice, as by kill -9, when destroyed.
class Process {
 public:
  explicit Process(const fs::path& directory, const std::vector<job::MachineType>& site_types = {})
      : engine(loop_), buckets_(directory / "buckets") {
    store_ = std::move(*store::Store::Open(directory / "muster.db"));
    const LaunchSite site{.data_directory = directory,
                          .endpoint_file = directory / "musterd.json",
                          .inherited = {{"HOME", "/root"}},
                          .grace_period = std::chrono::seconds(10),
                          .gcs_mount = true};
    ImageMapping mapping;
    mapping.pattern = "gcr.io/mapped/*";
    auto machines = job::MachineCatalog::Builtin();
    for (const job::MachineType& type : site_types) machines.Add(type);
    controller = std::make_unique<Controller>(
        loop_, *store_, buckets_, clock_,
        Controller::Options{site, ImageMap({mapping}, "/usr/bin:/bin"), machines});
    controller->Attach(engine);
    engine.Attach(*controller);
  }
  ~Process() {
    loop_.stop();
    if (thread_.joinable()) thread_.join();
  }

  void Run() {
    thread_ = std::thread([this] { loop_.run(); });
  }
  // On the loop, and waits.
  template <typename F>
  auto On(F work) {
    std::packaged_task<decltype(work())()> task(std::move(work));
    auto result = task.get_future();
    boost::asio::post(loop_, [&task] { task(); });
    return result.get();
  }
  // The first state among `wanted` that the job shows.
  aip::CustomJob Await(const std::string& name, aip::JobState wanted) {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    aip::CustomJob job;
    do {
      job = *controller->Get(name);
      if (job.state() == wanted) return job;
      std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < deadline);
    ADD_FAILURE() << name << " is still " << aip::JobState_Name(job.state());
    return job;
  }
  void AwaitStart(const engine::AttemptKey& key) {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    while (!On([&] { return engine.running.contains(key); })) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "never started";
    }
  }
  void ReportStarted(const engine::AttemptKey& key) {
    AwaitStart(key);
    const muster::v1::LaunchSpec spec = On([&] { return engine.running.at(key); });
    muster::v1::ReportRequest report;
    *report.mutable_id() = spec.id();
    report.set_token(spec.token());
    report.mutable_started()->set_process_id(42);
    EXPECT_TRUE(controller->Report(report));
  }
  std::vector<std::string> Lines(const std::string& uid) {
    std::vector<std::string> lines;
    const auto entries = controller->EventReader(uid)(0, 1000);
    for (const auto& [sequence, entry] : *entries) lines.push_back(entry.message);
    return lines;
  }

 private:
  boost::asio::io_context loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      loop_.get_executor()};

 public:
  FakeEngine engine;
  std::unique_ptr<Controller> controller;

 private:
  SystemClock clock_;
  bucket::BucketDirectories buckets_;
  std::unique_ptr<store::Store> store_;
  std::thread thread_;
};

aip::CustomJob TwoPools(int workers = 1) {
  aip::CustomJob job;
  job.set_display_name("train");
  for (int pool = 0; pool < 2; ++pool) {
    aip::WorkerPoolSpec* spec = job.mutable_job_spec()->add_worker_pool_specs();
    spec->set_replica_count(pool == 0 ? 1 : workers);
    spec->mutable_machine_spec()->set_machine_type("n1-standard-4");
    spec->mutable_container_spec()->set_image_uri("gcr.io/mapped/image");
    spec->mutable_container_spec()->add_command("train");
    spec->mutable_container_spec()->add_args("--to=$(AIP_MODEL_DIR)");
  }
  job.mutable_job_spec()->mutable_base_output_directory()->set_output_uri_prefix("gs://bkt/out");
  return job;
}

class ControllerTest : public testing::Test {
 protected:
  ControllerTest() {
    fs::create_directories(directory_);
    Restart(true);
  }
  ~ControllerTest() override {
    process_.reset();
    fs::remove_all(directory_);
  }

  void Restart(bool run) {
    process_.reset();
    process_ = std::make_unique<Process>(directory_);
    if (run) process_->Run();
  }
  void RestartWith(const std::vector<job::MachineType>& site_types) {
    process_.reset();
    process_ = std::make_unique<Process>(directory_, site_types);
    process_->Run();
  }
  std::string Create(const aip::CustomJob& job) {
    const auto created = process_->controller->Create(kParent, job);
    EXPECT_TRUE(created) << created.error().message;
    return created->name();
  }
  static std::string UidOf(const std::string& name) { return name.substr(name.rfind('/') + 1); }
  // Both replicas placed and reported as started.
  std::string CreateRunning() {
    const std::string name = Create(TwoPools());
    process_->Await(name, aip::JOB_STATE_PENDING);
    process_->ReportStarted(Key(name, 0));
    process_->ReportStarted(Key(name, 1));
    process_->Await(name, aip::JOB_STATE_RUNNING);
    return name;
  }
  static engine::AttemptKey Key(const std::string& name, int pool, int attempt = 0) {
    return {UidOf(name), {pool, 0}, attempt};
  }
  void End(const engine::AttemptKey& key, muster::v1::Exited::Cause cause, int status) {
    process_->On([&] { process_->engine.End(key, cause, status, "boom"); });
  }

  const fs::path directory_ = fs::temp_directory_path() / ("muster-control-" + RandomHex(12));
  std::unique_ptr<Process> process_;
};

TEST_F(ControllerTest, PrimaryDoneMeansSucceededAndNothingLeft) {
  const std::string name = CreateRunning();
  End(Key(name, 0), muster::v1::Exited::EXITED, 0);
  const aip::CustomJob job = process_->Await(name, aip::JOB_STATE_SUCCEEDED);
  EXPECT_TRUE(job.has_start_time());
  EXPECT_TRUE(job.has_end_time());
  EXPECT_FALSE(job.has_error());
  process_->On([&] {
    EXPECT_THAT(process_->engine.stopped, ElementsAre(Key(name, 1)));
    EXPECT_THAT(process_->engine.running, IsEmpty());
    EXPECT_THAT(process_->engine.held, IsEmpty());
  });
  const std::vector<std::string> lines = process_->Lines(UidOf(name));
  EXPECT_EQ(lines.front(), "Waiting for job to be provisioned.");
  EXPECT_THAT(lines, testing::Contains("Warning: no accelerator here"));
  EXPECT_THAT(lines, testing::Contains("Job is running."));
  EXPECT_EQ(lines.back(), "Job completed successfully.");
}

TEST_F(ControllerTest, ReplicasAreToldWhoTheyAre) {
  const std::string name = CreateRunning();
  const muster::v1::LaunchSpec spec =
      process_->On([&] { return process_->engine.running.at(Key(name, 1)); });
  EXPECT_EQ(spec.argv(1), "--to=/gcs/bkt/out/model/");
  std::map<std::string, std::string> environment;
  for (const auto& variable : spec.environment()) environment[variable.name()] = variable.value();
  EXPECT_THAT(environment["CLUSTER_SPEC"], HasSubstr("workerpool1"));
  EXPECT_EQ(environment["RANK"], "1");
  EXPECT_EQ(environment["MUSTER_ATTEMPT"], UidOf(name) + "/workerpool1-0/0");
  EXPECT_EQ(environment["HOME"], "/root");
  EXPECT_TRUE(fs::is_directory(directory_ / "buckets/bkt/out/model"));
}

TEST_F(ControllerTest, FailureNamesTheReplica) {
  const std::string name = CreateRunning();
  End(Key(name, 1), muster::v1::Exited::EXITED, 1);
  const aip::CustomJob job = process_->Await(name, aip::JOB_STATE_FAILED);
  EXPECT_THAT(job.error().message(),
              HasSubstr("The replica workerpool1-0 exited with a non-zero status of 1."));
  const auto view = process_->controller->View(name);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->replicas(1).attempts(0).exit_status(), 1);
  EXPECT_EQ(view->replicas(1).attempts(0).state(), "ENDED");
  EXPECT_EQ(view->model_directory(), (directory_ / "buckets/bkt/out/model/").string());
}

TEST_F(ControllerTest, AgentLostFailsTheJobNamingTheReplica) {
  const std::string name = CreateRunning();
  process_->On([&] { process_->engine.EndWithoutReport(Key(name, 1)); });
  EXPECT_THAT(process_->Await(name, aip::JOB_STATE_FAILED).error().message(),
              HasSubstr("workerpool1-0"));
}

TEST_F(ControllerTest, RetryStartsTheNextAttemptOfEveryReplica) {
  const std::string name = CreateRunning();
  End(Key(name, 1), muster::v1::Exited::EXITED, 139);
  process_->Await(name, aip::JOB_STATE_PENDING);
  process_->ReportStarted(Key(name, 0, 1));
  process_->ReportStarted(Key(name, 1, 1));
  process_->Await(name, aip::JOB_STATE_RUNNING);
  End(Key(name, 0, 1), muster::v1::Exited::EXITED, 0);
  process_->Await(name, aip::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(process_->controller->Logs(name)->sources.size(), 5u);  // service, 2 replicas × 2
}

TEST_F(ControllerTest, CancelWhileWaitingRunningAndEnded) {
  process_->On([&] { process_->engine.admit = false; });
  const std::string waiting = Create(TwoPools());
  process_->On([] {});
  EXPECT_EQ(process_->controller->View(waiting)->waiting_reason(), "needs 8 vCPUs; 4 are free");
  EXPECT_TRUE(process_->controller->Cancel(waiting));
  EXPECT_EQ(process_->Await(waiting, aip::JOB_STATE_CANCELLED).error().code(), 1);

  process_->On([&] { process_->engine.admit = true; });
  const std::string running = CreateRunning();
  EXPECT_TRUE(process_->controller->Cancel(running));
  process_->Await(running, aip::JOB_STATE_CANCELLED);
  EXPECT_TRUE(process_->controller->Cancel(running));
  process_->On([&] { EXPECT_THAT(process_->engine.held, IsEmpty()); });

  const Status missing = process_->controller->Cancel(std::string(kParent) + "/customJobs/1");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
}

TEST_F(ControllerTest, UnmappedImageFailsWithTheLineToAdd) {
  aip::CustomJob job = TwoPools();
  job.mutable_job_spec()->mutable_worker_pool_specs(1)->mutable_container_spec()->set_image_uri(
      "gcr.io/other/image");
  const aip::CustomJob failed = process_->Await(Create(job), aip::JOB_STATE_FAILED);
  EXPECT_THAT(failed.error().message(),
              HasSubstr("- {pattern: \"gcr.io/other/image\", python: /path/to/venv}"));
  process_->On([&] { EXPECT_THAT(process_->engine.started, IsEmpty()); });
}

TEST_F(ControllerTest, ValidationErrorsCreateNothing) {
  aip::CustomJob job = TwoPools();
  job.clear_display_name();
  const auto created = process_->controller->Create(kParent, job);
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().code, Code::kInvalidArgument);
  EXPECT_THAT(process_->controller
                  ->List({.parent = kParent, .filter = {}, .page_size = 0, .page_token = {}})
                  ->jobs,
              IsEmpty());
}

TEST_F(ControllerTest, EngineThatCannotStartFailsTheJob) {
  process_->On([&] { process_->engine.refuse_start = "no more processes"; });
  EXPECT_THAT(process_->Await(Create(TwoPools()), aip::JOB_STATE_FAILED).error().message(),
              HasSubstr("no more processes"));
}

TEST_F(ControllerTest, ReportsNeedTheAttemptsToken) {
  const std::string name = CreateRunning();
  muster::v1::ReportRequest report;
  report.mutable_id()->set_job_uid(UidOf(name));
  report.set_token("wrong");
  report.mutable_alive();
  EXPECT_EQ(process_->controller->Report(report).error().code, Code::kUnauthenticated);
  report.mutable_id()->set_attempt(7);
  EXPECT_EQ(process_->controller->Report(report).error().code, Code::kNotFound);
  report.mutable_id()->set_job_uid("none");
  EXPECT_EQ(process_->controller->Report(report).error().code, Code::kNotFound);
}

TEST_F(ControllerTest, DeleteWantsAnEndedJobAndLeavesNothing) {
  const std::string name = CreateRunning();
  const auto refused = process_->controller->Delete(name);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  ASSERT_TRUE(process_->controller->Cancel(name));
  process_->Await(name, aip::JOB_STATE_CANCELLED);
  fs::create_directories(directory_ / "jobs" / UidOf(name) / "workerpool0-0");
  const auto operation = process_->controller->Delete(name);
  ASSERT_TRUE(operation) << operation.error().message;
  EXPECT_TRUE(operation->done());
  EXPECT_EQ(process_->controller->GetOperation(operation->name())->name(), operation->name());
  EXPECT_EQ(process_->controller->Get(name).error().code, Code::kNotFound);
  EXPECT_FALSE(fs::exists(directory_ / "jobs" / UidOf(name)));
}

TEST_F(ControllerTest, RunningJobGoesOnAfterACrash) {
  const std::string name = CreateRunning();
  Restart(false);
  EXPECT_EQ(*process_->controller->Recover(), 1);
  process_->Run();
  End(Key(name, 0), muster::v1::Exited::EXITED, 0);
  process_->Await(name, aip::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(process_->Lines(UidOf(name)),
              testing::Contains("musterd was restarted; the job goes on."));
}

TEST_F(ControllerTest, WhatEndedMeanwhileIsFoundAfterACrash) {
  const std::string name = CreateRunning();
  Restart(false);
  process_->engine.fates[Key(name, 0)] = engine::AttemptFate::kReported;
  process_->engine.reports[Key(name, 0)].set_cause(muster::v1::Exited::EXITED);
  EXPECT_EQ(*process_->controller->Recover(), 1);
  process_->Run();
  process_->Await(name, aip::JOB_STATE_SUCCEEDED);
}

TEST_F(ControllerTest, AttemptThatWasNeverLaunchedIsLaunchedAfterACrash) {
  const std::string name = Create(TwoPools());
  process_->Await(name, aip::JOB_STATE_PENDING);
  Restart(false);
  process_->engine.fates[Key(name, 0)] = engine::AttemptFate::kNeverLaunched;
  EXPECT_EQ(*process_->controller->Recover(), 1);
  process_->Run();
  process_->On([&] { EXPECT_THAT(process_->engine.started, ElementsAre(Key(name, 0))); });
}

TEST_F(ControllerTest, MachineRestartRestartsReplicas) {
  const std::string name = CreateRunning();
  Restart(false);
  process_->engine.fates[Key(name, 0)] = engine::AttemptFate::kHostLost;
  process_->engine.fates[Key(name, 1)] = engine::AttemptFate::kHostLost;
  EXPECT_EQ(*process_->controller->Recover(), 1);
  process_->Run();
  process_->AwaitStart(Key(name, 0, 1));
  process_->AwaitStart(Key(name, 1, 1));
}

TEST_F(ControllerTest, ReportedExitCountsWhenItsFileIsMissing) {
  const std::string name = CreateRunning();
  const muster::v1::LaunchSpec spec =
      process_->On([&] { return process_->engine.running.at(Key(name, 0)); });
  muster::v1::ReportRequest report;
  *report.mutable_id() = spec.id();
  report.set_token(spec.token());
  report.mutable_exited()->set_cause(muster::v1::Exited::EXITED);
  EXPECT_TRUE(process_->controller->Report(report));
  process_->On([&] { process_->engine.EndWithoutReport(Key(name, 0)); });
  process_->Await(name, aip::JOB_STATE_SUCCEEDED);
}

TEST_F(ControllerTest, EndedAttemptsTakeNoEmptyTokenAfterACrash) {
  const std::string name = CreateRunning();
  End(Key(name, 1), muster::v1::Exited::EXITED, 0);
  process_->On([] {});
  Restart(false);
  EXPECT_EQ(*process_->controller->Recover(), 1);
  process_->Run();
  muster::v1::ReportRequest report;
  report.mutable_id()->set_job_uid(UidOf(name));
  report.mutable_id()->set_pool(1);
  report.mutable_alive();
  EXPECT_EQ(process_->controller->Report(report).error().code, Code::kUnauthenticated);
}

TEST_F(ControllerTest, JobGoesOnThoughItsMachineTypeIsGoneFromTheConfiguration) {
  aip::CustomJob job = TwoPools();
  RestartWith({{.name = "lab-1", .vcpus = 1, .memory_mb = 1024}});
  job.mutable_job_spec()->mutable_worker_pool_specs(0)->mutable_machine_spec()->set_machine_type(
      "lab-1");
  const std::string name = Create(job);
  process_->AwaitStart(Key(name, 0));
  Restart(false);
  EXPECT_EQ(*process_->controller->Recover(), 1);
  process_->Run();
  EXPECT_TRUE(process_->controller->View(name));
  End(Key(name, 0), muster::v1::Exited::EXITED, 0);
  process_->Await(name, aip::JOB_STATE_SUCCEEDED);
}

TEST_F(ControllerTest, JobThatCannotBeTakenUpAgainIsStoppedAndFails) {
  const std::string name = CreateRunning();
  process_.reset();
  {
    auto store = std::move(*store::Store::Open(directory_ / "muster.db"));
    store::JobRecord record = *store->GetJob(name);
    record.lifecycle = "written by another version";
    ASSERT_TRUE(store->SaveJob({.resource = store->GetResource(name).value(),
                                .job = record,
                                .attempts = {},
                                .events = {}}));
  }
  Restart(false);
  EXPECT_EQ(*process_->controller->Recover(), 0);
  process_->Run();
  const aip::CustomJob job = process_->Await(name, aip::JOB_STATE_FAILED);
  EXPECT_THAT(job.error().message(), HasSubstr("could not take the job up again"));
  process_->On(
      [&] { EXPECT_THAT(process_->engine.stopped, ElementsAre(Key(name, 0), Key(name, 1))); });
  EXPECT_TRUE(process_->controller->Cancel(name));
  EXPECT_TRUE(process_->controller->Delete(name));
}

TEST_F(ControllerTest, FilesOfDeletedJobsGoEvenAfterACrash) {
  const std::string name = CreateRunning();
  fs::create_directories(directory_ / "jobs/12345/workerpool0-0");
  fs::create_directories(directory_ / "jobs" / UidOf(name));
  Restart(false);
  EXPECT_EQ(*process_->controller->Recover(), 1);
  EXPECT_FALSE(fs::exists(directory_ / "jobs/12345"));
  EXPECT_TRUE(fs::exists(directory_ / "jobs" / UidOf(name)));
}

TEST_F(ControllerTest, WaitingJobWaitsOnAfterACrash) {
  process_->On([&] { process_->engine.admit = false; });
  const std::string name = Create(TwoPools());
  process_->On([] {});
  Restart(false);
  EXPECT_EQ(*process_->controller->Recover(), 1);
  process_->Run();
  process_->Await(name, aip::JOB_STATE_PENDING);
}

}  // namespace
}  // namespace muster::control
