#include "job/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include <functional>
#include <limits>

#include "job/job_testing.h"

namespace muster::job {
namespace {

namespace aip = google::cloud::aiplatform::v1;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const MachineCatalog& Machines() {
  static const MachineCatalog catalog = MachineCatalog::Builtin();
  return catalog;
}

aip::CustomJob ValidJob() {
  return JobFromJson(R"({"displayName": "j", "labels": {"k": "v"}, "jobSpec": {"workerPoolSpecs": [
      {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "1",
       "containerSpec": {"imageUri": "gcr.io/p/i", "command": ["python3"]}}]}})");
}

// The violations of a valid job after a change.
std::vector<Violation> After(const std::function<void(aip::CustomJob&)>& change) {
  aip::CustomJob job = ValidJob();
  change(job);
  return ValidateCustomJob(job, Machines());
}

std::vector<Violation> AfterPool(const std::function<void(aip::WorkerPoolSpec&)>& change) {
  return After(
      [&](aip::CustomJob& job) { change(*job.mutable_job_spec()->mutable_worker_pool_specs(0)); });
}

std::vector<Violation> AfterScheduling(std::string_view json) {
  return After([&](aip::CustomJob& job) {
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(
                    {json.data(), json.size()}, job.mutable_job_spec()->mutable_scheduling())
                    .ok());
  });
}

auto IsAt(const std::string& field, const std::string& message_part) {
  return AllOf(Field(&Violation::field, field),
               Field(&Violation::message, HasSubstr(message_part)));
}

const std::string kPool0 = "job_spec.worker_pool_specs[0]";

TEST(ValidateTest, ValidJobHasNoViolations) {
  EXPECT_THAT(After([](auto&) {}), IsEmpty());
}

TEST(ValidateTest, DisplayNameIsRequiredAndCountedInCharacters) {
  EXPECT_THAT(After([](auto& job) { job.clear_display_name(); }),
              ElementsAre(IsAt("display_name", "Required field is not set.")));
  std::string name;
  for (int i = 0; i < 128; ++i) name += "ü";
  EXPECT_THAT(After([&](auto& job) { job.set_display_name(name); }), IsEmpty());
  EXPECT_THAT(After([&](auto& job) { job.set_display_name(name + "x"); }),
              ElementsAre(IsAt("display_name", "at most 128 characters; found 129")));
}

TEST(ValidateTest, Labels) {
  const auto with = [](const std::string& key, const std::string& value) {
    return After([&](auto& job) { (*job.mutable_labels())[key] = value; });
  };
  EXPECT_THAT(with("team_1-a", ""), IsEmpty());
  EXPECT_THAT(with("größe", "früh"), IsEmpty());
  EXPECT_THAT(with(std::string(64, 'a'), std::string(64, 'b')), IsEmpty());
  EXPECT_THAT(with(std::string(65, 'a'), "v"), ElementsAre(IsAt("labels", "The label key")));
  EXPECT_THAT(with("a", std::string(65, 'b')), ElementsAre(IsAt("labels", "of the label \"a\"")));
  EXPECT_THAT(with("Team", "v"), ElementsAre(IsAt("labels", "The label key \"Team\"")));
  EXPECT_THAT(with("a", "x y"), ElementsAre(IsAt("labels", "The value \"x y\"")));
  EXPECT_THAT(with("", "v"), ElementsAre(IsAt("labels", "must not be empty")));
  EXPECT_THAT(After([](auto& job) {
                for (int i = 0; i < 64; ++i) (*job.mutable_labels())["l" + std::to_string(i)] = "";
              }),
              ElementsAre(IsAt("labels", "At most 64 labels may be set; found 65")));
}

TEST(ValidateTest, SpecAndPoolsAreRequired) {
  EXPECT_THAT(After([](auto& job) { job.clear_job_spec(); }),
              ElementsAre(IsAt("job_spec", "Required field is not set.")));
  EXPECT_THAT(After([](auto& job) { job.mutable_job_spec()->clear_worker_pool_specs(); }),
              ElementsAre(IsAt("job_spec.worker_pool_specs", "Required field is not set.")));
  EXPECT_THAT(After([](auto& job) {
                for (int i = 0; i < 4; ++i) job.mutable_job_spec()->add_worker_pool_specs();
              }),
              ElementsAre(IsAt("job_spec.worker_pool_specs", "At most 4 worker pools")));
}

TEST(ValidateTest, PrimaryPoolHasExactlyOneReplica) {
  for (const int64_t count :
       {int64_t{0}, int64_t{2}, int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_THAT(
        AfterPool([&](auto& pool) { pool.set_replica_count(count); }),
        ElementsAre(IsAt(kPool0 + ".replica_count", "must be 1; found " + std::to_string(count))));
  }
}

TEST(ValidateTest, LaterPoolsMayBeEmptyOrWithoutReplicas) {
  EXPECT_THAT(After([](auto& job) { job.mutable_job_spec()->add_worker_pool_specs(); }), IsEmpty());
  EXPECT_THAT(After([](auto& job) {
                auto* pool = job.mutable_job_spec()->add_worker_pool_specs();
                pool->mutable_machine_spec()->set_machine_type("n1-standard-4");
              }),
              IsEmpty());
}

TEST(ValidateTest, ReplicaCountsAreBounded) {
  const auto with = [](int64_t workers, int64_t servers) {
    return After([&](aip::CustomJob& job) {
      auto& pools = *job.mutable_job_spec()->mutable_worker_pool_specs();
      const aip::WorkerPoolSpec primary = pools[0];
      for (const int64_t count : {workers, servers}) {
        *pools.Add() = primary;
        pools[pools.size() - 1].set_replica_count(count);
      }
    });
  };
  EXPECT_THAT(with(999, 0), IsEmpty());
  EXPECT_THAT(with(500, 499), IsEmpty());
  EXPECT_THAT(with(1000, 5),
              ElementsAre(IsAt("job_spec.worker_pool_specs[1].replica_count", "at most 1000")));
  EXPECT_THAT(with(500, 500),
              ElementsAre(IsAt("job_spec.worker_pool_specs[2].replica_count", "at most 1000")));
  EXPECT_THAT(with(-1, 1), ElementsAre(IsAt("job_spec.worker_pool_specs[1].replica_count",
                                            "must not be negative")));
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(with(kMost, kMost).size(), 1u);
}

TEST(ValidateTest, ExactlyOneTask) {
  EXPECT_THAT(AfterPool([](auto& pool) { pool.clear_container_spec(); }),
              ElementsAre(IsAt(kPool0, "Exactly one of")));
  EXPECT_THAT(AfterPool([](auto& pool) { pool.mutable_container_spec()->clear_image_uri(); }),
              ElementsAre(IsAt(kPool0 + ".container_spec.image_uri", "Required")));
  EXPECT_THAT(AfterPool([](auto& pool) { pool.mutable_python_package_spec(); }),
              ElementsAre(IsAt(kPool0 + ".python_package_spec.executor_image_uri", "Required"),
                          IsAt(kPool0 + ".python_package_spec.python_module", "Required")));
}

TEST(ValidateTest, MachineTypeIsRequiredAndKnown) {
  const auto with = [](const std::string& type) {
    return AfterPool([&](auto& pool) { pool.mutable_machine_spec()->set_machine_type(type); });
  };
  const std::string field = kPool0 + ".machine_spec.machine_type";
  EXPECT_THAT(with(""), ElementsAre(IsAt(field, "Required field is not set.")));
  EXPECT_THAT(with("n1-standart-4"),
              ElementsAre(IsAt(field,
                               "Machine type \"n1-standart-4\" is not supported. Did you "
                               "mean n1-standard-4")));
  EXPECT_THAT(with("quantum"),
              ElementsAre(AllOf(IsAt(field, "is not supported"),
                                Field(&Violation::message, Not(HasSubstr("Did you mean"))))));
  EXPECT_THAT(AfterPool([](auto& pool) { pool.clear_machine_spec(); }),
              ElementsAre(IsAt(field, "Required")));
}

TEST(ValidateTest, AcceleratorTypeAndCountBothOrNone) {
  const auto with = [](aip::AcceleratorType type, int count) {
    return AfterPool([&](auto& pool) {
      pool.mutable_machine_spec()->set_accelerator_type(type);
      pool.mutable_machine_spec()->set_accelerator_count(count);
    });
  };
  const std::string field = kPool0 + ".machine_spec.accelerator_type";
  EXPECT_THAT(with(aip::NVIDIA_TESLA_T4, 1), IsEmpty());
  for (const auto& violations :
       {with(aip::NVIDIA_TESLA_T4, 0), with(aip::ACCELERATOR_TYPE_UNSPECIFIED, 1)}) {
    ASSERT_EQ(violations.size(), 1u);
    EXPECT_EQ(violations[0].field, field);
    EXPECT_EQ(violations[0].message,
              "Both `accelerator_type` and `accelerator_count` should be specified or none.");
  }
  EXPECT_THAT(with(static_cast<aip::AcceleratorType>(99), 1),
              ElementsAre(IsAt(field, "Accelerator type 99 is not known")));
  EXPECT_THAT(with(aip::NVIDIA_TESLA_T4, -1),
              ElementsAre(IsAt(kPool0 + ".machine_spec.accelerator_count", "between 0 and")));
}

TEST(ValidateTest, TpusAreForOnePool) {
  const auto tpu = [](aip::WorkerPoolSpec& pool) {
    pool.mutable_machine_spec()->set_machine_type("cloud-tpu");
    pool.mutable_machine_spec()->set_accelerator_type(aip::TPU_V3);
    pool.mutable_machine_spec()->set_accelerator_count(8);
  };
  EXPECT_THAT(AfterPool(tpu), IsEmpty());
  EXPECT_THAT(After([&](aip::CustomJob& job) {
                auto& pools = *job.mutable_job_spec()->mutable_worker_pool_specs();
                *pools.Add() = aip::WorkerPoolSpec(pools[0]);
                tpu(pools[0]);
              }),
              ElementsAre(IsAt("job_spec.worker_pool_specs[1]", "A job with TPUs")));
}

TEST(ValidateTest, EnvironmentVariables) {
  const auto with = [](const std::string& name, const std::string& value = "v") {
    return AfterPool([&](auto& pool) {
      auto* variable = pool.mutable_container_spec()->add_env();
      variable->set_name(name);
      variable->set_value(value);
    });
  };
  const std::string field = kPool0 + ".container_spec.env[0]";
  for (const char* name : {"A", "_", "a1_B2", "TF_CONFIG"}) EXPECT_THAT(with(name), IsEmpty());
  EXPECT_THAT(with("A", ""), IsEmpty());
  EXPECT_THAT(with(""), ElementsAre(IsAt(field + ".name", "Required")));
  for (const char* name : {"1A", "A-B", "A B", "A=B", "Ä", "A."}) {
    EXPECT_THAT(with(name), ElementsAre(IsAt(field + ".name", "must be a C identifier"))) << name;
  }
  EXPECT_THAT(with("A", std::string("a\0b", 3)), ElementsAre(IsAt(field + ".value", "NUL")));

  const auto many = [](int count) {
    return AfterPool([&](auto& pool) {
      for (int i = 0; i < count; ++i) {
        pool.mutable_container_spec()->add_env()->set_name("V" + std::to_string(i));
      }
    });
  };
  EXPECT_THAT(many(100), IsEmpty());
  EXPECT_THAT(many(101), ElementsAre(IsAt(kPool0 + ".container_spec.env", "At most 100")));
}

TEST(ValidateTest, PythonPackages) {
  const auto with = [](int packages) {
    return AfterPool([&](auto& pool) {
      auto* package = pool.mutable_python_package_spec();
      package->set_executor_image_uri("i");
      package->set_python_module("trainer.task");
      for (int i = 0; i < packages; ++i) package->add_package_uris("gs://b/p.tar.gz");
    });
  };
  EXPECT_THAT(with(1), IsEmpty());
  EXPECT_THAT(with(100), IsEmpty());
  EXPECT_THAT(with(101), ElementsAre(IsAt(kPool0 + ".python_package_spec.package_uris",
                                          "At most 100 packages may be given; found 101")));
}

TEST(ValidateTest, ArgsTogetherHaveALimitOfCharacters) {
  const auto with = [](std::vector<std::string> args) {
    return AfterPool([&](auto& pool) {
      for (const std::string& arg : args) pool.mutable_container_spec()->add_args(arg);
    });
  };
  std::string wide;
  for (int i = 0; i < 50'000; ++i) wide += "€";
  EXPECT_THAT(with({wide, wide}), IsEmpty());
  EXPECT_THAT(with({wide, wide, "x"}),
              ElementsAre(IsAt(kPool0 + ".container_spec.args",
                               "at most 100000 characters; found 100001")));
  EXPECT_THAT(with({"a", std::string("\0", 1)}),
              ElementsAre(IsAt(kPool0 + ".container_spec.args[1]", "NUL")));
}

TEST(ValidateTest, BootDisk) {
  const auto with = [](int gb) {
    return AfterPool([&](auto& pool) { pool.mutable_disk_spec()->set_boot_disk_size_gb(gb); });
  };
  for (const int gb : {0, 100, 64'000}) EXPECT_THAT(with(gb), IsEmpty());
  for (const int gb : {-1, 1, 99, 64'001}) {
    EXPECT_THAT(with(gb), ElementsAre(IsAt(kPool0 + ".disk_spec.boot_disk_size_gb",
                                           "between 100 and 64000 GB; found")));
  }
}

TEST(ValidateTest, OutputDirectory) {
  const auto with = [](const std::string& uri) {
    return After([&](auto& job) {
      job.mutable_job_spec()->mutable_base_output_directory()->set_output_uri_prefix(uri);
    });
  };
  for (const char* uri : {"", "gs://bucket", "gs://bucket/", "gs://bucket/out/x/",
                          "gs://staging/aiplatform-custom-job-2026-11-20-17:36:26.217",
                          "gs://my.site.org/a b", "gs://bucket/a..b/.hidden"}) {
    EXPECT_THAT(with(uri), IsEmpty()) << uri;
  }
  const std::string field = "job_spec.base_output_directory.output_uri_prefix";
  for (const char* uri : {"/tmp/out", "s3://bucket/x", "gs:/bucket", "GS://bucket"}) {
    EXPECT_THAT(with(uri), ElementsAre(IsAt(field, "must be a Cloud Storage path"))) << uri;
  }
  for (const char* uri : {"gs://", "gs:///x", "gs://Bucket/x", "gs://-b/x", "gs://a b/x"}) {
    EXPECT_THAT(with(uri), ElementsAre(IsAt(field, "is not the name of a bucket"))) << uri;
  }
  for (const char* uri : {"gs://bucket/..", "gs://bucket/a/../b", "gs://bucket/./x"}) {
    EXPECT_THAT(with(uri), ElementsAre(IsAt(field, "no . or .."))) << uri;
  }
}

TEST(ValidateTest, Scheduling) {
  EXPECT_THAT(AfterScheduling(R"({"timeout": "0s"})"), IsEmpty());
  EXPECT_THAT(AfterScheduling(R"({"timeout": "604800s", "restartJobOnWorkerRestart": true})"),
              IsEmpty());
  EXPECT_THAT(AfterScheduling(R"({"timeout": "-1s"})"),
              ElementsAre(IsAt("job_spec.scheduling.timeout", "must not be negative")));
  EXPECT_THAT(AfterScheduling(R"({"strategy": 6, "maxWaitDuration": "0s"})"), IsEmpty());
  EXPECT_THAT(AfterScheduling(R"({"strategy": "FLEX_START", "maxWaitDuration": "-0.5s"})"),
              ElementsAre(IsAt("job_spec.scheduling.max_wait_duration", "must not be negative")));
  for (const char* strategy : {"STRATEGY_UNSPECIFIED", "STANDARD", "SPOT", "ON_DEMAND"}) {
    EXPECT_THAT(
        AfterScheduling(fmt::format(R"({{"strategy": "{}", "maxWaitDuration": "60s"}})", strategy)),
        ElementsAre(IsAt("job_spec.scheduling.max_wait_duration", "FLEX_START")));
  }
  EXPECT_THAT(AfterScheduling(R"({"strategy": 42})"),
              ElementsAre(IsAt("job_spec.scheduling.strategy", "Strategy 42 is not known")));
}

TEST(ValidateTest, AllAtOnceInTheOfficialFormat) {
  const auto job = JobFromJson(R"({"jobSpec": {"workerPoolSpecs": [
      {"machineSpec": {"machineType": "n1-standard-4", "acceleratorType": "NVIDIA_TESLA_T4"},
       "replicaCount": "1", "containerSpec": {"imageUri": "i"}},
      {"replicaCount": 1}]}})");
  const Error error = ValidationError(ValidateCustomJob(job, Machines()));
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_EQ(error.message,
            "List of found errors:\t"
            "1.Field: display_name; Message: Required field is not set.\t"
            "2.Field: job_spec.worker_pool_specs[0].machine_spec.accelerator_type; Message: Both "
            "`accelerator_type` and `accelerator_count` should be specified or none.\t"
            "3.Field: job_spec.worker_pool_specs[1].machine_spec.machine_type; Message: Required "
            "field is not set.\t"
            "4.Field: job_spec.worker_pool_specs[1]; Message: Exactly one of `container_spec` and "
            "`python_package_spec` must be set.\t");
}

TEST(ValidateTest, HostileTextsKeepMessagesShort) {
  const std::string monster(1'000'000, '\n');
  const auto violations = After([&](aip::CustomJob& job) {
    (*job.mutable_labels())[monster] = monster;
    auto& pool = *job.mutable_job_spec()->mutable_worker_pool_specs(0);
    pool.mutable_machine_spec()->set_machine_type(monster);
    for (int i = 0; i < 10'000; ++i)
      pool.mutable_container_spec()->add_env()->set_name(monster.substr(0, 500));
    job.mutable_job_spec()->mutable_base_output_directory()->set_output_uri_prefix(monster);
  });
  EXPECT_GE(violations.size(), 5u);
  const std::string message = ValidationError(violations).message;
  EXPECT_LT(message.size(), 60'000u);
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

// Whatever the numbers: a job with one wrong field has one violation, at that field.
RC_GTEST_PROP(ValidateProperty, NumbersAreJudgedEachForItself, ()) {
  const auto count = *rc::gen::arbitrary<int64_t>();
  const auto gb = *rc::gen::arbitrary<int32_t>();
  const auto seconds = *rc::gen::inRange<int64_t>(-1000, 1000);
  const auto violations = After([&](aip::CustomJob& job) {
    auto& pool = *job.mutable_job_spec()->mutable_worker_pool_specs(0);
    pool.set_replica_count(count);
    pool.mutable_disk_spec()->set_boot_disk_size_gb(gb);
    job.mutable_job_spec()->mutable_scheduling()->mutable_timeout()->set_seconds(seconds);
  });
  const int expected = (count != 1) + (gb != 0 && (gb < 100 || gb > 64'000)) + (seconds < 0);
  RC_ASSERT(violations.size() == static_cast<size_t>(expected));
}

}  // namespace
}  // namespace muster::job
