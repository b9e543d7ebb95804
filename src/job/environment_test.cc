#include "job/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "job/job_testing.h"

namespace muster::job {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using Json = nlohmann::json;

const JobIdentity kIdentity{"p", "123456789", "us-central1", "4242"};

PoolPlan Pool(int pool, Role role, int replicas) {
  PoolPlan plan;
  plan.pool = pool;
  plan.role = role;
  plan.replica_count = replicas;
  plan.task = ContainerTask{.image_uri = "gcr.io/p/i", .command = {}, .args = {}};
  return plan;
}

JobPlan PlanOf(std::vector<PoolPlan> pools) {
  JobPlan plan;
  plan.pools = std::move(pools);
  return plan;
}

ClusterAddresses LocalAddresses(const JobPlan& plan) {
  ClusterAddresses addresses{.replicas = {}, .master_host = "127.0.0.1", .master_port = 29500};
  int port = 20000;
  for (const ReplicaId replica : plan.Replicas()) {
    addresses.replicas[replica] = "127.0.0.1:" + std::to_string(port++);
  }
  return addresses;
}

Result<std::string> GcsPath(std::string_view uri) {
  return "/gcs/" + std::string(uri.substr(std::string_view("gs://").size()));
}

std::map<std::string, std::string> EnvironmentOf(const JobPlan& plan, ReplicaId replica) {
  const Result<EnvironmentList> list =
      ServiceEnvironment(plan, kIdentity, LocalAddresses(plan), replica, GcsPath);
  EXPECT_TRUE(list.has_value());
  std::map<std::string, std::string> environment(list->begin(), list->end());
  EXPECT_EQ(environment.size(), list->size()) << "a name came twice";
  return environment;
}

// Contract §1, letter by letter.
TEST(ClusterSpecTest, IsTheContractsExample) {
  const JobPlan plan = PlanOf(
      {Pool(0, Role::kPrimary, 1), Pool(1, Role::kWorker, 2), Pool(2, Role::kParameterServer, 1)});
  const std::string host = "cmle-training-workerpool{}-4c1d6d97d0-{}:2222";
  ClusterAddresses addresses;
  for (const ReplicaId replica : plan.Replicas()) {
    addresses.replicas[replica] = fmt::format(fmt::runtime(host), replica.pool, replica.index);
  }
  EXPECT_EQ(
      ClusterSpecJson(plan, addresses, {1, 1}),
      R"({"cluster":{"workerpool0":["cmle-training-workerpool0-4c1d6d97d0-0:2222"],)"
      R"("workerpool1":["cmle-training-workerpool1-4c1d6d97d0-0:2222","cmle-training-workerpool1-4c1d6d97d0-1:2222"],)"
      R"("workerpool2":["cmle-training-workerpool2-4c1d6d97d0-0:2222"]},)"
      R"("environment":"cloud",)"
      R"("task":{"type":"workerpool1","index":1},)"
      R"("job":"{\"python_module\":\"\",\"package_uris\":[],\"job_args\":[]}",)"
      R"("open_ports":[3333]})");
}

// Contract §2.
TEST(TfConfigTest, IsTheContractsExample) {
  const JobPlan plan = PlanOf(
      {Pool(0, Role::kPrimary, 1), Pool(1, Role::kWorker, 2), Pool(2, Role::kParameterServer, 1)});
  EXPECT_EQ(
      TfConfigJson(plan, kIdentity, LocalAddresses(plan), {1, 0}),
      R"({"cluster":{"chief":["127.0.0.1:20000"],"worker":["127.0.0.1:20001","127.0.0.1:20002"],"ps":["127.0.0.1:20003"]},)"
      R"("environment":"cloud","job":"{\"python_module\":\"\",\"package_uris\":[],\"job_args\":[]}",)"
      R"("task":{"type":"worker","index":0,"cloud":"waf63ed4c8602096f-ml"}})");
}

TEST(EnvironmentTest, EvaluatorsHaveATaskButNoPlaceInTheClusterAndNoRank) {
  const JobPlan plan = PlanOf({Pool(0, Role::kPrimary, 1), Pool(1, Role::kWorker, 1),
                               Pool(2, Role::kParameterServer, 2), Pool(3, Role::kEvaluator, 1)});
  const auto evaluator = EnvironmentOf(plan, {3, 0});
  const Json config = Json::parse(evaluator.at("TF_CONFIG"));
  EXPECT_EQ(config["task"]["type"], "evaluator");
  EXPECT_EQ(config["task"]["index"], 0);
  EXPECT_THAT(evaluator, Not(Contains(Key("RANK"))));
  EXPECT_THAT(evaluator, Not(Contains(Key("WORLD_SIZE"))));
  for (const ReplicaId replica : plan.Replicas()) {
    const Json cluster = Json::parse(EnvironmentOf(plan, replica).at("TF_CONFIG"))["cluster"];
    EXPECT_FALSE(cluster.contains("evaluator"));
    EXPECT_EQ(cluster.size(), 3u);
  }
  EXPECT_EQ(EnvironmentOf(plan, {2, 1}).at("RANK"), "3");
  EXPECT_EQ(EnvironmentOf(plan, {2, 1}).at("WORLD_SIZE"), "4");
  EXPECT_EQ(Json::parse(evaluator.at("CLUSTER_SPEC"))["cluster"]["workerpool3"].size(), 1u);
}

TEST(EnvironmentTest, ReducersAreInClusterSpecAlone) {
  const JobPlan plan =
      PlanOf({Pool(0, Role::kPrimary, 1), Pool(1, Role::kWorker, 2), Pool(2, Role::kReducer, 4)});
  for (const ReplicaId replica : plan.Replicas()) {
    const auto environment = EnvironmentOf(plan, replica);
    EXPECT_EQ(Json::parse(environment.at("CLUSTER_SPEC"))["cluster"]["workerpool2"].size(), 4u);
    EXPECT_FALSE(Json::parse(environment.at("TF_CONFIG"))["cluster"].contains("ps"));
    EXPECT_EQ(environment.contains("RANK"), replica.pool != 2);
    if (replica.pool != 2) {
      EXPECT_EQ(environment.at("WORLD_SIZE"), "3");
    }
  }
}

TEST(EnvironmentTest, SkippedPoolsKeepTheirNumbers) {
  const JobPlan plan = PlanOf({Pool(0, Role::kPrimary, 1), Pool(2, Role::kParameterServer, 1)});
  const Json cluster = Json::parse(EnvironmentOf(plan, {2, 0}).at("CLUSTER_SPEC"))["cluster"];
  EXPECT_TRUE(cluster.contains("workerpool0"));
  EXPECT_FALSE(cluster.contains("workerpool1"));
  EXPECT_TRUE(cluster.contains("workerpool2"));
  EXPECT_EQ(EnvironmentOf(plan, {2, 0}).at("RANK"), "1");
}

TEST(EnvironmentTest, JobOfOneReplicaHasNothingOfAClusterButClusterSpec) {
  const auto environment = EnvironmentOf(PlanOf({Pool(0, Role::kPrimary, 1)}), {0, 0});
  EXPECT_THAT(environment, Contains(Key("CLUSTER_SPEC")));
  for (const char* name : {"TF_CONFIG", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK",
                           "AIP_MODEL_DIR", "AIP_TENSORBOARD_RESOURCE_NAME"}) {
    EXPECT_THAT(environment, Not(Contains(Key(name))));
  }
  EXPECT_THAT(environment, Contains(Pair("CLOUD_ML_PROJECT_ID", "123456789")));
  EXPECT_THAT(environment, Contains(Pair("CLOUD_ML_JOB_ID", "4242")));
  EXPECT_THAT(environment, Contains(Pair("CLOUD_ML_REGION", "us-central1")));
  EXPECT_THAT(environment, Contains(Pair("GOOGLE_CLOUD_PROJECT", "p")));
}

TEST(EnvironmentTest, OutputDirectoriesAreOpenablePathsWithATrailingSlash) {
  JobPlan plan = PlanOf({Pool(0, Role::kPrimary, 1)});
  plan.base_output_directory = "gs://b/out:17:36";
  const auto environment = EnvironmentOf(plan, {0, 0});
  EXPECT_THAT(environment, Contains(Pair("AIP_MODEL_DIR", "/gcs/b/out:17:36/model/")));
  EXPECT_THAT(environment, Contains(Pair("AIP_CHECKPOINT_DIR", "/gcs/b/out:17:36/checkpoints/")));
  EXPECT_THAT(environment, Contains(Pair("AIP_TENSORBOARD_LOG_DIR", "/gcs/b/out:17:36/logs/")));

  const auto failing = [](std::string_view) -> Result<std::string> {
    return Fail(Code::kNotFound, "no such bucket");
  };
  const auto failed = ServiceEnvironment(plan, kIdentity, LocalAddresses(plan), {0, 0}, failing);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().message, "no such bucket");
}

TEST(EnvironmentTest, JobDocumentHoldsThePoolsProgram) {
  JobPlan plan = PlanOf({Pool(0, Role::kPrimary, 1), Pool(1, Role::kWorker, 1)});
  plan.pools[0].task = PythonPackageTask{.executor_image_uri = "i",
                                         .package_uris = {"gs://b/t.tar.gz"},
                                         .python_module = "trainer.task",
                                         .args = {"--x", "\"quoted\""}};
  std::get<ContainerTask>(plan.pools[1].task).args = {"$(AIP_MODEL_DIR)"};
  const auto document = [&](ReplicaId replica) {
    return Json::parse(
        Json::parse(EnvironmentOf(plan, replica).at("CLUSTER_SPEC"))["job"].get<std::string>());
  };
  EXPECT_EQ(document({0, 0}), Json::parse(R"({"python_module": "trainer.task",
      "package_uris": ["gs://b/t.tar.gz"], "job_args": ["--x", "\"quoted\""]})"));
  EXPECT_EQ(document({1, 0})["job_args"], Json::array({"$(AIP_MODEL_DIR)"}));
}

TEST(EnvironmentTest, LongArgsDoNotMakeAVariableThatNoProgramCanBeStartedWith) {
  JobPlan plan = PlanOf({Pool(0, Role::kPrimary, 1), Pool(1, Role::kWorker, 999)});
  for (const char letter : {'x', '"'}) {
    std::get<ContainerTask>(plan.pools[0].task).args = {std::string(100'000, letter)};
    const auto environment = EnvironmentOf(plan, {0, 0});
    for (const auto& [name, value] : environment) {
      EXPECT_LT(name.size() + value.size() + 2, size_t{131'072}) << name;
    }
    EXPECT_TRUE(Json::accept(environment.at("CLUSTER_SPEC")));
  }
}

// Contract §3 and §1's user code: ranks of all that count are 0 … WORLD_SIZE-1 in order, chief and
// workers where user code computes them to be, and every replica sees the same cluster.
RC_GTEST_PROP(EnvironmentProperty, RanksAndClustersAgree, ()) {
  std::vector<PoolPlan> pools = {Pool(0, Role::kPrimary, 1)};
  const Role pool2 = *rc::gen::element(Role::kParameterServer, Role::kReducer);
  const std::pair<int, Role> later[] = {{1, Role::kWorker}, {2, pool2}, {3, Role::kEvaluator}};
  for (const auto& [pool, role] : later) {
    if (const int replicas = *rc::gen::inRange(0, 5)) pools.push_back(Pool(pool, role, replicas));
  }
  const JobPlan plan = PlanOf(std::move(pools));
  const auto replicas = plan.Replicas();

  std::set<std::string> clusters;
  int expected_rank = 0;
  for (const ReplicaId replica : replicas) {
    const auto environment = EnvironmentOf(plan, replica);
    const Json spec = Json::parse(environment.at("CLUSTER_SPEC"));
    clusters.insert(spec["cluster"].dump());
    const std::string own = spec["task"]["type"];
    RC_ASSERT(spec["cluster"][own][spec["task"]["index"].get<size_t>()] ==
              LocalAddresses(plan).replicas.at(replica));
    RC_ASSERT(environment.contains("TF_CONFIG") == (replicas.size() > 1));
    if (replicas.size() == 1) continue;
    const Role role = plan.FindPool(replica.pool)->role;
    const bool counts = role != Role::kReducer && role != Role::kEvaluator;
    RC_ASSERT(environment.contains("RANK") == counts);
    if (!counts) continue;
    RC_ASSERT(environment.at("RANK") == std::to_string(expected_rank));
    if (replica.pool == 1) RC_ASSERT(expected_rank == replica.index + 1);
    ++expected_rank;
  }
  RC_ASSERT(clusters.size() == 1u);
  if (replicas.size() > 1) {
    RC_ASSERT(EnvironmentOf(plan, {0, 0}).at("WORLD_SIZE") == std::to_string(expected_rank));
  }
}

}  // namespace
}  // namespace muster::job
