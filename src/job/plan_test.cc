#include "job/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include <limits>

#include "job/job_testing.h"
#include "job/validate.h"

namespace muster::job {
namespace {

namespace aip = google::cloud::aiplatform::v1;

using std::chrono::hours;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const MachineCatalog& Machines() {
  static const MachineCatalog catalog = MachineCatalog::Builtin();
  return catalog;
}

JobPlan PlanOf(std::string_view job_json) {
  const auto job = JobFromJson(job_json);
  const Result<JobPlan> plan = MakePlan(job.job_spec(), Machines());
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return plan.value_or(JobPlan{});
}

constexpr const char* kOnePool = R"({"jobSpec": {"workerPoolSpecs": [
    {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "1",
     "containerSpec": {"imageUri": "gcr.io/p/i", "command": ["python3", "t.py"], "args": ["--x"],
                       "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}}]}})";

TEST(PlanTest, DefaultsAreVertexs) {
  const JobPlan plan = PlanOf(kOnePool);
  ASSERT_EQ(plan.pools.size(), 1u);
  EXPECT_EQ(plan.pools[0].role, Role::kPrimary);
  EXPECT_EQ(plan.pools[0].machine.vcpus, 4);
  EXPECT_EQ(plan.pools[0].accelerator_count, 0);
  EXPECT_EQ(plan.pools[0].image_uri(), "gcr.io/p/i");
  const auto& task = std::get<ContainerTask>(plan.pools[0].task);
  EXPECT_THAT(task.command, ElementsAre("python3", "t.py"));
  EXPECT_THAT(task.args, ElementsAre("--x"));
  EXPECT_THAT(plan.pools[0].env, ElementsAre(std::pair("A", "1"), std::pair("A", "2")));
  EXPECT_EQ(plan.scheduling.timeout, hours(24 * 7));
  EXPECT_FALSE(plan.scheduling.max_wait);
  EXPECT_FALSE(plan.scheduling.disable_retries);
  EXPECT_EQ(plan.base_output_directory, "");
  EXPECT_FALSE(plan.IsDistributed());
  EXPECT_EQ(plan.FindPool(1), nullptr);
}

TEST(PlanTest, RolesGoByPositionAndEmptyPoolsAreSkipped) {
  const JobPlan plan = PlanOf(R"({"jobSpec": {"workerPoolSpecs": [
      {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1,
       "containerSpec": {"imageUri": "i"}},
      {},
      {"machineSpec": {"machineType": "n1-highcpu-16"}, "replicaCount": 2,
       "containerSpec": {"imageUri": "gcr.io/p/ps"}},
      {"machineSpec": {"machineType": "n1-standard-8"}, "replicaCount": 1,
       "containerSpec": {"imageUri": "i"}}]}})");
  ASSERT_EQ(plan.pools.size(), 3u);
  EXPECT_EQ(plan.pools[1].pool, 2);
  EXPECT_EQ(plan.pools[1].role, Role::kParameterServer);
  EXPECT_EQ(plan.pools[2].pool, 3);
  EXPECT_EQ(plan.pools[2].role, Role::kEvaluator);
  EXPECT_THAT(plan.Replicas(),
              ElementsAre(ReplicaId{0, 0}, ReplicaId{2, 0}, ReplicaId{2, 1}, ReplicaId{3, 0}));
  EXPECT_TRUE(plan.IsDistributed());
  EXPECT_EQ(ReplicaName(plan.Replicas()[2]), "workerpool2-1");
}

TEST(PlanTest, ReductionServerImageInPoolTwoMakesReducers) {
  const JobPlan plan = PlanOf(R"({"jobSpec": {"workerPoolSpecs": [
      {"machineSpec": {"machineType": "a2-highgpu-1g"}, "replicaCount": 1,
       "containerSpec": {"imageUri": "i"}},
      {"machineSpec": {"machineType": "n1-highmem-96", "acceleratorType": "NVIDIA_TESLA_V100",
                       "acceleratorCount": 8}, "replicaCount": 4,
       "containerSpec": {"imageUri": "i"}},
      {"machineSpec": {"machineType": "n1-highcpu-16"}, "replicaCount": 4, "containerSpec":
       {"imageUri": "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"}}]}})");
  EXPECT_EQ(plan.pools[2].role, Role::kReducer);
  EXPECT_EQ(plan.pools[0].accelerator_count, 1);  // the machine's own
  EXPECT_EQ(plan.pools[0].accelerator_type, "NVIDIA_TESLA_A100");
  EXPECT_EQ(plan.pools[1].accelerator_count, 8);
  EXPECT_EQ(plan.pools[1].accelerator_type, "NVIDIA_TESLA_V100");
  EXPECT_EQ(plan.pools[1].machine.egress_mbps, 100'000);  // contract §5
  EXPECT_EQ(plan.pools[2].machine.egress_mbps, 32'000);
}

TEST(PlanTest, ImagesOfVertexAreKnown) {
  for (const char* image :
       {"us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest",
        "europe-docker.pkg.dev/vertex-ai-restricted/training/reductionserver",
        "asia-docker.pkg.dev/vertex-ai-restricted/training/reductionserver@sha256:00"}) {
    EXPECT_TRUE(IsReductionServerImage(image)) << image;
  }
  for (const char* image :
       {"", "reductionserver", "gcr.io/p/reductionserver:latest",
        "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver2:latest",
        "mars-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest",
        "us-docker.pkg.dev/vertex-ai-restricted/training/pytorch:latest"}) {
    EXPECT_FALSE(IsReductionServerImage(image)) << image;
  }
  EXPECT_TRUE(IsPrebuiltImage("us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-14.py310:latest"));
  EXPECT_TRUE(IsPrebuiltImage("gcr.io/cloud-aiplatform/training/tf-cpu.2-8:latest"));
  EXPECT_FALSE(IsPrebuiltImage("gcr.io/p/i"));
  EXPECT_FALSE(
      IsPrebuiltImage("us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"));
}

TEST(PlanTest, PythonPackagesAreTakenOver) {
  const JobPlan plan = PlanOf(R"({"jobSpec": {"workerPoolSpecs": [
      {"machineSpec": {"machineType": "n1-standard-8"}, "replicaCount": "1", "pythonPackageSpec":
       {"executorImageUri": "us-docker.pkg.dev/vertex-ai/training/pytorch-cpu.2-4.py310:latest",
        "packageUris": ["gs://staging/t.tar.gz"], "pythonModule": "trainer.task",
        "args": ["--x", "1"], "env": [{"name": "E", "value": "1"}]}}]}})");
  const auto& task = std::get<PythonPackageTask>(plan.pools[0].task);
  EXPECT_THAT(task.package_uris, ElementsAre("gs://staging/t.tar.gz"));
  EXPECT_EQ(task.python_module, "trainer.task");
  EXPECT_THAT(task.args, ElementsAre("--x", "1"));
  EXPECT_EQ(plan.pools[0].env.size(), 1u);
  EXPECT_TRUE(IsPrebuiltImage(plan.pools[0].image_uri()));
}

TEST(PlanTest, SchedulingRules) {
  const auto rules = [](std::string_view scheduling) {
    auto job = JobFromJson(kOnePool);
    EXPECT_TRUE(
        google::protobuf::util::JsonStringToMessage({scheduling.data(), scheduling.size()},
                                                    job.mutable_job_spec()->mutable_scheduling())
            .ok());
    return MakePlan(job.job_spec(), Machines())->scheduling;
  };
  EXPECT_EQ(rules(R"({"timeout": "3600s"})").timeout, seconds(3600));
  EXPECT_EQ(rules(R"({"timeout": "0.5s"})").timeout, seconds(1));
  EXPECT_EQ(rules(R"({"timeout": "0s"})").timeout, hours(24 * 7));
  EXPECT_EQ(rules(R"({"strategy": "FLEX_START"})").max_wait, hours(24));
  EXPECT_EQ(rules(R"({"strategy": 6, "maxWaitDuration": "0s"})").max_wait, seconds(0));
  EXPECT_EQ(rules(R"({"strategy": 6, "maxWaitDuration": "90s"})").max_wait, seconds(90));
  EXPECT_FALSE(rules(R"({"strategy": "SPOT"})").max_wait);
  EXPECT_TRUE(rules(R"({"restartJobOnWorkerRestart": true})").restart_job_on_worker_restart);
  const auto both = rules(R"({"restartJobOnWorkerRestart": true, "disableRetries": true})");
  EXPECT_TRUE(both.disable_retries);
  EXPECT_FALSE(both.restart_job_on_worker_restart);
}

TEST(PlanTest, OutputDirectoryLosesItsTrailingSlashes) {
  for (const auto& [uri, expected] :
       {std::pair("gs://b/out/", "gs://b/out"), std::pair("gs://b//", "gs://b"),
        std::pair("gs://b/out:1", "gs://b/out:1")}) {
    auto job = JobFromJson(kOnePool);
    job.mutable_job_spec()->mutable_base_output_directory()->set_output_uri_prefix(uri);
    EXPECT_EQ(MakePlan(job.job_spec(), Machines())->base_output_directory, expected);
  }
}

TEST(PlanTest, WhatCannotBePlannedIsAnError) {
  const auto error = [](auto change) {
    auto job = JobFromJson(kOnePool);
    change(*job.mutable_job_spec());
    const Result<JobPlan> plan = MakePlan(job.job_spec(), Machines());
    EXPECT_FALSE(plan.has_value());
    if (plan) return std::string();
    EXPECT_EQ(plan.error().code, Code::kInvalidArgument);
    return plan.error().message;
  };
  EXPECT_THAT(error([](auto& spec) { spec.clear_worker_pool_specs(); }), HasSubstr("exactly 1"));
  EXPECT_THAT(error([](auto& spec) { spec.mutable_worker_pool_specs(0)->set_replica_count(2); }),
              HasSubstr("exactly 1"));
  EXPECT_THAT(
      error([](auto& spec) {
        spec.mutable_worker_pool_specs(0)->set_replica_count(std::numeric_limits<int64_t>::max());
      }),
      HasSubstr("more than 1000"));
  EXPECT_THAT(error([](auto& spec) { spec.mutable_worker_pool_specs(0)->clear_container_spec(); }),
              HasSubstr("neither"));
  EXPECT_THAT(error([](auto& spec) {
                spec.mutable_worker_pool_specs(0)->mutable_machine_spec()->set_machine_type("x");
              }),
              HasSubstr("\"x\" is not known"));
  EXPECT_THAT(error([](auto& spec) {
                for (int i = 0; i < 4; ++i) spec.add_worker_pool_specs();
              }),
              HasSubstr("more than 4"));
}

// What validation lets through can be planned, and the plan is the spec's.
RC_GTEST_PROP(PlanProperty, ValidSpecsHavePlansWithTheirReplicas, ()) {
  aip::CustomJob job = JobFromJson(kOnePool);
  job.set_display_name("j");
  const aip::WorkerPoolSpec primary = job.job_spec().worker_pool_specs(0);
  const int pools = *rc::gen::inRange(1, 5);
  int64_t replicas = 1;
  for (int pool = 1; pool < pools; ++pool) {
    aip::WorkerPoolSpec& spec = *job.mutable_job_spec()->add_worker_pool_specs();
    const int64_t count = *rc::gen::element<int64_t>(0, 1, 2, 7, 400);
    if (count == 0 && *rc::gen::arbitrary<bool>()) continue;  // {}
    spec = primary;
    spec.set_replica_count(count);
    replicas += count;
  }
  const std::vector<Violation> violations = ValidateCustomJob(job, Machines());
  RC_ASSERT(violations.empty() == (replicas <= kReplicasMax));
  if (!violations.empty()) return;
  const Result<JobPlan> plan = MakePlan(job.job_spec(), Machines());
  RC_ASSERT(plan.has_value());
  RC_ASSERT(plan->Replicas().size() == static_cast<size_t>(replicas));
  RC_ASSERT(plan->Replicas().front() == (ReplicaId{0, 0}));
  RC_ASSERT(std::ranges::is_sorted(plan->Replicas()));
  for (const PoolPlan& pool : plan->pools) {
    RC_ASSERT(pool.replica_count == job.job_spec().worker_pool_specs(pool.pool).replica_count());
  }
}

}  // namespace
}  // namespace muster::job
