#include "config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::config {
namespace {

using testing::HasSubstr;

TEST(Config, EmptyIsTheDefaults) {
  const auto config = ParseConfig("", "c.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->network, Network::kHost);
  EXPECT_EQ(config->grace_period, std::chrono::seconds(10));
}

TEST(Config, ReadsEveryKey) {
  const auto config = ParseConfig(R"(
network: private
accelerators: wait
oversubscribe: 2
cpus: 4
memory_gb: 8
gpus: 1
grace_period: 500ms
ports: 21000-21099
mounts: off
memory_limits: off
buckets: {root: /srv/buckets, data: /mnt/data}
machine_types: [{name: tiny, vcpus: 1, memory_gb: 0.25, egress_gbps: 1}]
images:
  - pattern: "gcr.io/p/*"
    python: /opt/venv
    env: {A: "1", B: two}
    entrypoint: [python3, -m, train]
    cmd: [--epochs, "3"]
    working_directory: /srv
)",
                                  "c.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->network, Network::kPrivate);
  EXPECT_EQ(config->accelerators, MissingAccelerators::kWait);
  EXPECT_EQ(config->memory_mb, 8192);
  EXPECT_EQ(config->gpus, 1);
  EXPECT_EQ(config->grace_period, std::chrono::milliseconds(500));
  EXPECT_EQ(config->ports, std::make_pair(21000, 21099));
  EXPECT_EQ(config->mounts, Isolation::kOff);
  EXPECT_EQ(config->buckets_root, "/srv/buckets");
  EXPECT_EQ(config->buckets.at("data"), "/mnt/data");
  ASSERT_EQ(config->machine_types.size(), 1u);
  EXPECT_EQ(config->machine_types[0].memory_mb, 256);
  ASSERT_EQ(config->images.size(), 1u);
  EXPECT_EQ(config->images[0].env, (job::EnvironmentList{{"A", "1"}, {"B", "two"}}));
  EXPECT_EQ(config->images[0].cmd, (std::vector<std::string>{"--epochs", "3"}));
}

TEST(Config, ABareNumberIsSeconds) {
  const auto config = ParseConfig("grace_period: 10", "c.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->grace_period, std::chrono::seconds(10));
}

TEST(Config, AnAnchorMayBeUsedTwice) {
  const auto config = ParseConfig(
      "images:\n- {pattern: a, env: &env {A: x}}\n- {pattern: b, env: *env}\n", "c.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->images[1].env, (job::EnvironmentList{{"A", "x"}}));
}

struct BadConfig {
  const char* yaml;
  const char* expected;
};

class BadConfigs : public testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigs, NamesLineAndKey) {
  const auto config = ParseConfig(GetParam().yaml, "c.yaml");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(
    Config, BadConfigs,
    testing::Values(
        BadConfig{"network: bridge", "c.yaml:1: network is host or private"},
        BadConfig{"\nnetwrok: host", "c.yaml:2: the configuration has no key 'netwrok'"},
        BadConfig{"cpus: 1\n\ncpus: 2", "c.yaml:3: the key 'cpus' is there twice, first in line 1"},
        BadConfig{"buckets:\n  b: /x\n  b: /y",
                  "c.yaml:3: the key 'b' is there twice, first in line 2"},
        BadConfig{"images:\n- env:\n    A: 1\n    A: 2",
                  "c.yaml:4: the key 'A' is there twice, first in line 3"},
        BadConfig{"images: 3", "c.yaml:1: images must be a list"},
        BadConfig{"images: [{python: /x}]", "an image needs a pattern"},
        BadConfig{"images: [{pattern: x, pyton: /x}]", "no key 'pyton'"},
        BadConfig{"oversubscribe: 0", "oversubscribe must be at least 1"},
        BadConfig{"cpus: many", "cpus: 'many' is not a number"},
        BadConfig{"grace_period: soon", "'soon' is not a duration"},
        BadConfig{"ports: 1-5", "is not a range"},
        BadConfig{"machine_types: [{name: t}]", "machine type t needs vcpus"},
        BadConfig{"buckets: {b: relative}", "not an absolute path"}, BadConfig{"a: [", "c.yaml:"}));

TEST(Config, MissingFileIsNamed) {
  const auto config = LoadConfig("/nonexistent/muster.yaml");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("/nonexistent/muster.yaml"));
}

}  // namespace
}  // namespace muster::config
