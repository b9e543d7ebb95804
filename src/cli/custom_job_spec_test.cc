#include "cli/custom_job_spec.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "cli/run_spec.h"
#include "cli/yaml.h"

namespace muster::cli {
namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;

constexpr const char* kPool = "machine-type=n1-standard-4,container-image-uri=gcr.io/p/i";

CreateFlags Pools(const Texts& specs) {
  CreateFlags flags;
  flags.display_name = "gc";
  flags.worker_pool_specs = specs;
  return flags;
}

std::string FailureOf(const CreateFlags& flags, const json& config = {}) {
  const auto job = BuildCustomJob(flags, config);
  EXPECT_FALSE(job.has_value());
  return job ? "" : job.error().message;
}

// The body that gcloud 528.0.0 sends for the same flags (the contract's recorded requests).
TEST(BuildCustomJob, SendsWhatGcloudSends) {
  CreateFlags flags =
      Pools({"machine-type=n1-standard-4,replica-count=1,container-image-uri="
             "us-docker.pkg.dev/vertex-ai/training/pytorch-cpu.2-4.py310:latest"});
  flags.command = {"python3", "-c", "print(1)"};
  flags.labels = {{"a", "b"}};
  EXPECT_EQ(*BuildCustomJob(flags, {}), json::parse(R"json({"displayName": "gc",
    "jobSpec": {"workerPoolSpecs": [{"containerSpec": {"command": ["python3", "-c", "print(1)"],
      "imageUri": "us-docker.pkg.dev/vertex-ai/training/pytorch-cpu.2-4.py310:latest"},
      "machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "1"}]},
    "labels": {"a": "b"}})json"));
}

TEST(BuildCustomJob, EmptySpecsSkipPools) {
  const json job = *BuildCustomJob(Pools({kPool, "", std::string(kPool) + ",replica-count=2"}), {});
  const json& pools = job["jobSpec"]["workerPoolSpecs"];
  ASSERT_EQ(pools.size(), 3U);
  EXPECT_EQ(pools[1], json::object());
  EXPECT_EQ(pools[2]["replicaCount"], "2");
}

TEST(BuildCustomJob, TakesAccelerators) {
  const std::string pool = std::string(kPool) + ",accelerator-type=";
  const json one = *WorkerPoolFromFlag(pool + "NVIDIA_TESLA_T4", {});
  EXPECT_EQ(one["machineSpec"]["acceleratorCount"], 1);
  const json two = *WorkerPoolFromFlag(pool + "nvidia-tesla-t4,accelerator-count=2", {});
  EXPECT_EQ(two["machineSpec"]["acceleratorType"], "NVIDIA_TESLA_T4");
  EXPECT_EQ(two["machineSpec"]["acceleratorCount"], 2);
}

TEST(BuildCustomJob, FailsInGcloudsWords) {
  const std::string prefix = "Invalid value for [--worker-pool-spec]: ";
  EXPECT_EQ(FailureOf(Pools({"container-image-uri=i"})),
            prefix + "Key [machine-type] required in dict arg but not provided.");
  EXPECT_EQ(FailureOf(Pools({std::string(kPool) + ",accelerator-count=2"})),
            prefix + "Key [accelerator-type] required as [accelerator-count] is specified.");
  const std::string one_of =
      prefix + "Exactly one of keys [executor-image-uri, container-image-uri] is required.";
  EXPECT_EQ(FailureOf(Pools({"machine-type=m"})), one_of);
  EXPECT_EQ(FailureOf(Pools({std::string(kPool) + ",executor-image-uri=e"})), one_of);
  EXPECT_EQ(FailureOf(Pools({""})),
            prefix + "Empty value is not allowed for the first `--worker-pool-spec` flag.");
  EXPECT_EQ(FailureOf(Pools({std::string(kPool) + ",replica-count=two"})),
            prefix + "Key [replica-count] must be an integer; received: [two]");
  EXPECT_TRUE(FailureOf(Pools({"machine=m"})).starts_with(prefix + "valid keys are ["));
}

TEST(BuildCustomJob, LocalPackagingSaysWhatToDoInstead) {
  const std::string message =
      FailureOf(Pools({"machine-type=m,executor-image-uri=e,local-package-path=.,script=task.py"}));
  EXPECT_NE(message.find("not supported yet"), std::string::npos);
  EXPECT_NE(message.find("muster run"), std::string::npos);
}

TEST(BuildCustomJob, PythonModulesNeedPackages) {
  CreateFlags flags = Pools({"machine-type=m,executor-image-uri=e,python-module=trainer.task"});
  EXPECT_NE(FailureOf(flags).find("--python-package-uris"), std::string::npos);
  flags.python_package_uris = {"gs://b/p.tar.gz"};
  flags.args = {"--epochs", "3"};
  const json job = *BuildCustomJob(flags, {});
  EXPECT_EQ(job["jobSpec"]["workerPoolSpecs"][0]["pythonPackageSpec"], json::parse(R"({
    "executorImageUri": "e", "pythonModule": "trainer.task", "packageUris": ["gs://b/p.tar.gz"],
    "args": ["--epochs", "3"]})"));
}

TEST(BuildCustomJob, ConfigIsASpecOrAWholeJob) {
  CreateFlags flags;
  flags.display_name = "n";
  const json spec = *ParseDocument("workerPoolSpecs:\n- containerSpec: {imageUri: i}\nnetwork: x");
  const json from_spec = *BuildCustomJob(flags, spec);
  EXPECT_EQ(from_spec["jobSpec"], spec);
  const json job = {{"displayName", "n"},
                    {"jobSpec", spec},
                    {"state", "JOB_STATE_FAILED"},
                    {"name", "projects/p/…"},
                    {"createTime", "2026-11-20T17:36:26Z"}};
  EXPECT_EQ(*BuildCustomJob({}, job), from_spec);
}

TEST(BuildCustomJob, ConfigMayBeInSnakeCaseAndWithOnePool) {
  const json config = *ParseDocument(R"(
display_name: n
labels: {my_key: v}
job_spec:
  worker_pool_specs:
    container_spec: {image_uri: i}
    replica_count: 1
)");
  EXPECT_EQ(*BuildCustomJob({}, config), json::parse(R"({"displayName": "n",
    "labels": {"my_key": "v"},
    "jobSpec": {"workerPoolSpecs": [{"containerSpec": {"imageUri": "i"}, "replicaCount": 1}]}})"));
}

TEST(BuildCustomJob, FlagsWinOverConfig) {
  const json config = *ParseDocument(R"(
displayName: from-config
labels: {a: "1", b: "2"}
jobSpec:
  network: config
  baseOutputDirectory: {outputUriPrefix: gs://b/o}
  workerPoolSpecs:
  - containerSpec: {imageUri: i, args: [old], command: [old]}
  - {}
  - pythonPackageSpec: {pythonModule: m, args: [old]}
)");
  CreateFlags flags;
  flags.display_name = "from-flag";
  flags.labels = {{"b", "3"}, {"c", "4"}};
  flags.args = {"new"};
  flags.command = {"run"};
  flags.network = "flag";
  flags.enable_web_access = false;
  const json job = *BuildCustomJob(flags, config);
  EXPECT_EQ(job["displayName"], "from-flag");
  EXPECT_EQ(job["labels"], json::parse(R"({"a":"1","b":"3","c":"4"})"));
  EXPECT_EQ(job["jobSpec"]["network"], "flag");
  EXPECT_EQ(job["jobSpec"]["enableWebAccess"], false);
  EXPECT_EQ(job["jobSpec"]["workerPoolSpecs"], json::parse(R"([
    {"containerSpec": {"imageUri": "i", "args": ["new"], "command": ["run"]}}, {},
    {"pythonPackageSpec": {"pythonModule": "m", "args": ["new"]}}])"));
  flags.worker_pool_specs = {kPool};
  const json replaced = *BuildCustomJob(flags, config);
  EXPECT_EQ(replaced["jobSpec"]["workerPoolSpecs"].size(), 1U);
  EXPECT_EQ(replaced["jobSpec"]["baseOutputDirectory"], config["jobSpec"]["baseOutputDirectory"]);
}

TEST(BuildCustomJob, NeedsANameAndAMapping) {
  EXPECT_EQ(FailureOf({}, {{"workerPoolSpecs", json::array()}}),
            "argument --display-name: Must be specified, or displayName in --config.");
  CreateFlags flags;
  flags.display_name = "n";
  for (const char* text : {"[1, 2]", "just text", "jobSpec: 3"}) {
    EXPECT_NE(FailureOf(flags, *ParseDocument(text)).find("[--config]"), std::string::npos) << text;
  }
}

RunFlags Program(const Texts& program) {
  RunFlags flags;
  flags.program = program;
  return flags;
}

const json& PoolsOf(const json& job) { return job["jobSpec"]["workerPoolSpecs"]; }

TEST(BuildRunJob, ReplicasRunHereInThisEnvironment) {
  RunFlags flags = Program({"python", "train.py", "--epochs", "3"});
  flags.workers = 2;
  flags.env = {"LR=0.1", "TOKEN", "PATH=/mine"};
  const Variables environment = {{"PATH", "/usr/bin"},
                                 {"VIRTUAL_ENV", "/v$(x)"},
                                 {"SECRET", "s"},
                                 {"TOKEN", "t"},
                                 {"PYTHONPATH", ""}};
  const json job = *BuildRunJob(flags, environment, "/home/me/$(odd)", FakeClock().Now());
  ASSERT_EQ(PoolsOf(job).size(), 2U);
  EXPECT_EQ(PoolsOf(job)[0]["replicaCount"], "1");
  EXPECT_EQ(PoolsOf(job)[1]["replicaCount"], "2");
  const json& container = PoolsOf(job)[1]["containerSpec"];
  EXPECT_EQ(container, PoolsOf(job)[0]["containerSpec"]);
  EXPECT_EQ(container["imageUri"], "muster.local/host");
  EXPECT_EQ(container["command"], json({"env", "-C", "/home/me/$$(odd)", "python"}));
  EXPECT_EQ(container["args"], json({"train.py", "--epochs", "3"}));
  EXPECT_EQ(container["env"], json::parse(R"json([
    {"name": "VIRTUAL_ENV", "value": "/v$$(x)"}, {"name": "PYTHONUNBUFFERED", "value": "1"},
    {"name": "LR", "value": "0.1"}, {"name": "TOKEN", "value": "t"},
    {"name": "PATH", "value": "/mine"}])json"));
  EXPECT_EQ(job["displayName"], "train");
  EXPECT_EQ(job["jobSpec"]["baseOutputDirectory"]["outputUriPrefix"],
            "gs://muster-runs/train-20231114-221320");
}

// The service's rule: $$ is $, $(NAME) is NAME's value where there is one.
std::string Expand(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t close = text.find(')');
    if (text.starts_with("$$")) {
      out += '$';
      text.remove_prefix(2);
    } else if (text.starts_with("$(") && close != std::string_view::npos) {
      out += "VALUE";
      text.remove_prefix(close + 1);
    } else {
      out += text.front();
      text.remove_prefix(1);
    }
  }
  return out;
}

std::string ArgumentSeenBy(const std::string& typed) {
  const json job = *BuildRunJob(Program({"sh", typed}), {}, "/d", FakeClock().Now());
  return Expand(PoolsOf(job)[0]["containerSpec"]["args"][0].get<std::string>());
}

TEST(BuildRunJob, ArgumentsArriveAsTyped) {
  EXPECT_EQ(ArgumentSeenBy("echo $(date) $$ $x ${y} $$(z) $"), "echo $(date) $$ $x ${y} $$(z) $");
  EXPECT_EQ(ArgumentSeenBy("--dir=$(AIP_MODEL_DIR)/x"), "--dir=VALUE/x");
  EXPECT_EQ(ArgumentSeenBy("$(CLOUD_ML_JOB_ID)$(AIP_MODEL_DIR)$$"), "VALUEVALUE$$");
  EXPECT_EQ(ArgumentSeenBy("$$(AIP_MODEL_DIR)"), "$$(AIP_MODEL_DIR)");
  EXPECT_EQ(ArgumentSeenBy("$(AIP_"), "$(AIP_");
}

RC_GTEST_PROP(BuildRunJob, AnyArgumentArrivesAsTyped, ()) {
  std::string text;
  for (const auto& piece : *rc::gen::container<std::vector<std::string>>(
           rc::gen::element<std::string>("$", "$$", "(", ")", "a", "$(", "HOME", " "))) {
    text += piece;
  }
  RC_ASSERT(ArgumentSeenBy(text) == text);
}

TEST(BuildRunJob, PoolsKeepTheirPlaces) {
  RunFlags flags = Program({"./fit"});
  flags.evaluator = true;
  flags.accelerator_type = "NVIDIA_TESLA_T4";
  const json job = *BuildRunJob(flags, {}, "/d", FakeClock().Now());
  ASSERT_EQ(PoolsOf(job).size(), 4U);
  EXPECT_EQ(PoolsOf(job)[1], json::object());
  EXPECT_EQ(PoolsOf(job)[2], json::object());
  EXPECT_EQ(PoolsOf(job)[3]["machineSpec"]["acceleratorCount"], 1);
  EXPECT_FALSE(PoolsOf(job)[0]["containerSpec"].contains("args"));
  EXPECT_EQ(PoolsOf(*BuildRunJob(Program({"./fit"}), {}, "/d", FakeClock().Now())).size(), 1U);
}

TEST(BuildRunJob, ContainersHaveTheirOwnDirectoryAndEnvironment) {
  RunFlags flags = Program({"python", "train.py"});
  flags.image = "gcr.io/p/i";
  flags.timeout = std::chrono::seconds(90);
  const json job = *BuildRunJob(flags, {{"PATH", "/usr/bin"}}, "/d", FakeClock().Now());
  const json& container = PoolsOf(job)[0]["containerSpec"];
  EXPECT_EQ(container["command"], json::array({"python"}));
  EXPECT_EQ(container["env"], json::parse(R"([{"name": "PYTHONUNBUFFERED", "value": "1"}])"));
  EXPECT_EQ(job["jobSpec"]["scheduling"]["timeout"], "90s");
}

TEST(BuildRunJob, RefusesWhatMakesNoJob) {
  const Time now = FakeClock().Now();
  EXPECT_FALSE(BuildRunJob(Program({}), {}, "/d", now).has_value());
  EXPECT_FALSE(BuildRunJob(Program({"A=1", "python"}), {}, "/d", now).has_value());
  RunFlags flags = Program({"x"});
  flags.workers = -1;
  EXPECT_FALSE(BuildRunJob(flags, {}, "/d", now).has_value());
  for (const char* env : {"1A=2", "", "=x", "A-B=1", "NOT_SET"}) {
    flags = Program({"x"});
    flags.env = {env};
    EXPECT_FALSE(BuildRunJob(flags, {}, "/d", now).has_value()) << env;
  }
}

TEST(BuildRunJob, YamlFedBackIsTheSameJob) {
  RunFlags flags = Program({"python", "train.py", "--lr=0.1", "3", "a\nb", "$(AIP_MODEL_DIR)", ""});
  flags.workers = 2;
  const json job = *BuildRunJob(flags, {{"PATH", "/usr/bin:/bin"}}, "/d", FakeClock().Now());
  EXPECT_EQ(*BuildCustomJob({}, *ParseDocument(ToYaml(job))), job);
}

TEST(NameOfProgram, IsTheScripts) {
  EXPECT_EQ(NameOfProgram({"python", "train.py", "x.py"}), "train");
  EXPECT_EQ(NameOfProgram({"python3", "-u", "src/my train.py"}), "my-train");
  EXPECT_EQ(NameOfProgram({"python", "-m", "trainer.task"}), "trainer.task");
  EXPECT_EQ(NameOfProgram({"torchrun", "--nproc_per_node", "2", "ddp.py"}), "ddp");
  EXPECT_EQ(NameOfProgram({"uv", "run", "a.py"}), "a");
  EXPECT_EQ(NameOfProgram({"bash", "-c", "echo x"}), "bash");
  EXPECT_EQ(NameOfProgram({"./fit"}), "fit");
  EXPECT_EQ(NameOfProgram({"/"}), "run");
  EXPECT_EQ(NameOfProgram({std::string(300, 'x')}).size(), 60U);
}

}  // namespace
}  // namespace muster::cli
