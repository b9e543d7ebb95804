#include "cli/config_error.h"

#include <gtest/gtest.h>

namespace muster::cli {
namespace {

using nlohmann::json;

constexpr const char* kUnknown =
    "Invalid JSON payload received. Unknown name \"replicaCnt\" at "
    "'custom_job.job_spec.worker_pool_specs[1]': Cannot find field.";

TEST(ConfigErrorTest, NamesThePlaceInTheFile) {
  const json spec = json::parse(R"({"workerPoolSpecs": [{}, {"replicaCnt": 1}]})");
  EXPECT_EQ(InWordsOfConfig(kUnknown, "job.yaml", spec),
            "job.yaml: Unknown name \"replicaCnt\" at workerPoolSpecs[1]; did you mean "
            "\"replicaCount\"?");
  EXPECT_EQ(InWordsOfConfig(kUnknown, "job.yaml", {{"jobSpec", spec}}),
            "job.yaml: Unknown name \"replicaCnt\" at jobSpec.workerPoolSpecs[1]; did you mean "
            "\"replicaCount\"?");
}

TEST(ConfigErrorTest, SpellsKeysAsTheFileDoes) {
  const json spec = json::parse(R"({"worker_pool_specs": [{}, {"replica_cnt": 1}]})");
  EXPECT_EQ(InWordsOfConfig(kUnknown, "job.yaml", spec),
            "job.yaml: Unknown name \"replica_cnt\" at worker_pool_specs[1]; did you mean "
            "\"replica_count\"?");
}

TEST(ConfigErrorTest, AtTheTopThereIsNoPlace) {
  constexpr const char* kTop =
      "Invalid JSON payload received. Unknown name \"workerPoolSpec\" at 'custom_job.job_spec': "
      "Cannot find field.";
  EXPECT_EQ(InWordsOfConfig(kTop, "job.yaml", {{"workerPoolSpec", 1}}),
            "job.yaml: Unknown name \"workerPoolSpec\"; did you mean \"workerPoolSpecs\"?");
}

TEST(ConfigErrorTest, SuggestsOnlyWhatIsNearAndElse) {
  const auto unknown = [](const std::string& name) {
    return InWordsOfConfig("Invalid JSON payload received. Unknown name \"" + name +
                               "\" at 'custom_job.job_spec.scheduling': Cannot find field.",
                           "job.yaml", {{"scheduling", {{name, 1}}}});
  };
  EXPECT_EQ(unknown("gigaflops"), "job.yaml: Unknown name \"gigaflops\" at scheduling");
  EXPECT_EQ(unknown("imageUri"), "job.yaml: Unknown name \"imageUri\" at scheduling");
}

TEST(ConfigErrorTest, OtherErrorsKeepTheirWords) {
  EXPECT_EQ(InWordsOfConfig("Invalid value at 'custom_job.job_spec.worker_pool_specs[0]."
                            "replica_count' (TYPE_INT64), \"two\"",
                            "job.yaml", json::parse(R"({"workerPoolSpecs": []})")),
            "job.yaml: Invalid value at workerPoolSpecs[0].replicaCount (TYPE_INT64), \"two\"");
  for (const char* message : {"List of found errors:\t1.Field: a; Message: b\t", "no", "",
                              "x at 'custom_job.unfinished"}) {
    EXPECT_EQ(InWordsOfConfig(message, "job.yaml", json::object()), message);
  }
}

}  // namespace
}  // namespace muster::cli
