// tests/golden/job/*.json: "job" is a CustomJob as a client sends it; "expected" is what Muster
// makes of it, either the error text or, for every replica, the program and the environment.
// MUSTER_UPDATE_GOLDEN=1 build/bin/job_test --gtest_filter='Golden*' rewrites "expected".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "job/environment.h"
#include "job/job_testing.h"
#include "job/validate.h"

namespace muster::job {
namespace {

using Json = nlohmann::ordered_json;

const std::filesystem::path kDirectory =
    std::filesystem::path(MUSTER_SOURCE_DIR) / "tests/golden/job";

std::vector<std::string> Cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kDirectory)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
  }
  std::ranges::sort(names);
  return names;
}

Json ReplicaJson(const JobPlan& plan, const ClusterAddresses& addresses, ReplicaId replica) {
  const PoolPlan& pool = *plan.FindPool(replica.pool);
  const JobIdentity identity{"p", "123456789", "us-central1", "4242"};
  const auto path = [](std::string_view uri) -> Result<std::string> {
    return "/gcs/" + std::string(uri.substr(5));
  };
  const Result<EnvironmentList> service =
      ServiceEnvironment(plan, identity, addresses, replica, path);
  EXPECT_TRUE(service.has_value());
  const EnvironmentList environment = MergeEnvironment(*service, pool.env);
  Json json = {{"role", RoleName(pool.role)}, {"machine", pool.machine.name}};
  if (pool.accelerator_count > 0) {
    json["accelerators"] = fmt::format("{} {}", pool.accelerator_count, pool.accelerator_type);
  }
  json["image"] = pool.image_uri();
  if (const auto* container = std::get_if<ContainerTask>(&pool.task)) {
    json["command"] = ExpandAll(container->command, environment);
    json["args"] = ExpandAll(container->args, environment);
  } else {
    const auto& package = std::get<PythonPackageTask>(pool.task);
    json["packages"] = package.package_uris;
    json["module"] = package.python_module;
    json["args"] = ExpandAll(package.args, environment);
  }
  for (const auto& [name, value] : environment) json["environment"][name] = value;
  return json;
}

Json Expected(const google::cloud::aiplatform::v1::CustomJob& job) {
  const MachineCatalog machines = MachineCatalog::Builtin();
  if (const auto violations = ValidateCustomJob(job, machines); !violations.empty()) {
    return {{"error", ValidationError(violations).message}};
  }
  const Result<JobPlan> plan = MakePlan(job.job_spec(), machines);
  EXPECT_TRUE(plan.has_value());
  ClusterAddresses addresses{.replicas = {}, .master_host = "127.0.0.1", .master_port = 29500};
  int port = 20000;
  for (const ReplicaId replica : plan->Replicas()) {
    addresses.replicas[replica] = fmt::format("127.0.0.1:{}", port++);
  }
  Json expected;
  for (const ReplicaId replica : plan->Replicas()) {
    expected["replicas"][ReplicaName(replica)] = ReplicaJson(*plan, addresses, replica);
  }
  return expected;
}

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, JobBecomesWhatIsExpected) {
  const std::filesystem::path path = kDirectory / (GetParam() + ".json");
  const Result<std::string> text = ReadFile(path);
  ASSERT_TRUE(text.has_value());
  Json golden = Json::parse(*text);
  const Json expected = Expected(JobFromJson(golden["job"].dump()));
  if (std::getenv("MUSTER_UPDATE_GOLDEN") != nullptr) {
    golden["expected"] = expected;
    ASSERT_TRUE(WriteFileAtomic(path, golden.dump(2) + "\n").has_value());
    return;
  }
  EXPECT_EQ(golden["expected"].dump(2), expected.dump(2)) << path;
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenTest, testing::ValuesIn(Cases()),
                         [](const auto& test) { return test.param; });

TEST(GoldenCasesTest, AreThere) { EXPECT_GE(Cases().size(), 10u); }

}  // namespace
}  // namespace muster::job
