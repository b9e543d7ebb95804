#include "server/transcode/json.h"

#include <google/cloud/aiplatform/v1/job_service.pb.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace muster::server {
namespace {

namespace v1 = google::cloud::aiplatform::v1;

std::string ErrorOf(std::string_view json, std::string_view path = "custom_job") {
  v1::CustomJob job;
  const auto status = ReadJson(json, path, job);
  if (status) return "";
  EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  return status.error().message;
}

TEST(ReadJson, TakesBothCasesAndEnumsAsNamesOrNumbers) {
  v1::CustomJob job;
  const auto status = ReadJson(R"({
    "displayName": "a",
    "job_spec": {"workerPoolSpecs": [
      {"machine_spec": {"acceleratorType": "NVIDIA_TESLA_T4"}, "replicaCount": "1"},
      {"machineSpec": {"accelerator_type": 5, "acceleratorCount": 2}, "replica_count": 3}],
      "scheduling": {"timeout": "3600s", "restartJobOnWorkerRestart": null}}})",
                               "custom_job", job);
  ASSERT_TRUE(status.has_value()) << status.error().message;
  const auto& pools = job.job_spec().worker_pool_specs();
  EXPECT_EQ(pools[0].machine_spec().accelerator_type(), v1::NVIDIA_TESLA_T4);
  EXPECT_EQ(pools[1].machine_spec().accelerator_type(), 5);
  EXPECT_EQ(pools[0].replica_count(), 1);
  EXPECT_EQ(pools[1].replica_count(), 3);
  EXPECT_EQ(job.job_spec().scheduling().timeout().seconds(), 3600);
}

TEST(ReadJson, ErrorsAreWordedAsTheApiWordsThem) {
  EXPECT_EQ(ErrorOf(R"({"foo":1})"),
            "Invalid JSON payload received. Unknown name \"foo\" at 'custom_job': Cannot find "
            "field.");
  EXPECT_EQ(ErrorOf(R"({"foo":1})", ""),
            "Invalid JSON payload received. Unknown name \"foo\": Cannot find field.");
  EXPECT_EQ(ErrorOf(R"({"jobSpec":{"workerPoolSpecs":[{},{"foo":1}]}})"),
            "Invalid JSON payload received. Unknown name \"foo\" at "
            "'custom_job.job_spec.worker_pool_specs[1]': Cannot find field.");
  EXPECT_EQ(ErrorOf(R"({"jobSpec":{"workerPoolSpecs":[{"replicaCount":"two"}]}})"),
            "Invalid value at 'custom_job.job_spec.worker_pool_specs[0].replica_count' "
            "(TYPE_INT64), \"two\"");
  EXPECT_EQ(ErrorOf(R"({"displayName":1})"),
            "Invalid value at 'custom_job.display_name' (TYPE_STRING), 1");
  EXPECT_EQ(ErrorOf(R"({"jobSpec":{"workerPoolSpecs":[{"machineSpec":{"acceleratorType":"T"}}]}})"),
            "Invalid value at "
            "'custom_job.job_spec.worker_pool_specs[0].machine_spec.accelerator_type' "
            "(type.googleapis.com/google.cloud.aiplatform.v1.AcceleratorType), \"T\"");
  EXPECT_EQ(ErrorOf(R"({"jobSpec":[1]})"),
            "Invalid JSON payload received. Unknown name \"jobSpec\" at 'custom_job': Proto field "
            "is not repeating, cannot start list.");
}

TEST(ReadJson, WhatIsNotAJsonObjectIsSaidSo) {
  for (const std::string json : {"", "[1]", "\"x\"", "null", "{\"a b", "{\"displayName\":}", "{]",
                                 "\xff\xff", "{\"displayName\":\"\xff\"}"}) {
    EXPECT_TRUE(ErrorOf(json).starts_with("Invalid JSON payload received. ")) << json;
  }
  EXPECT_NE(ErrorOf(std::string(100'000, '[')), "");
  std::string deep = "{}";
  for (int i = 0; i < 1000; ++i) deep = R"({"jobSpec":)" + deep + "}";
  EXPECT_NE(ErrorOf(deep), "");
}

TEST(WriteJson, ProtoJsonWithTheStyleAskedFor) {
  v1::CustomJob job;
  job.set_display_name("a");
  job.set_state(v1::JOB_STATE_RUNNING);
  job.mutable_job_spec()->add_worker_pool_specs()->set_replica_count(1);
  EXPECT_EQ(*WriteJson(job, {}),
            R"({"displayName":"a","jobSpec":{"workerPoolSpecs":[{"replicaCount":"1"}]},)"
            R"("state":"JOB_STATE_RUNNING"})");
  EXPECT_EQ(
      *WriteJson(job, {.enums_as_integers = true}),
      R"({"displayName":"a","jobSpec":{"workerPoolSpecs":[{"replicaCount":"1"}]},"state":3})");
  EXPECT_NE(WriteJson(job, {.pretty = true})->find("\n \"displayName\": \"a\""), std::string::npos);
}

RC_GTEST_PROP(Json, WhatIsWrittenIsReadBack, (bool integers)) {
  v1::CustomJob job;
  const auto text = *rc::gen::string<std::string>();
  std::string ascii;
  for (const char c : text) ascii += static_cast<char>(c & 0x7f);
  job.set_display_name(ascii);
  (*job.mutable_labels())[ascii] = ascii;
  auto* pool = job.mutable_job_spec()->add_worker_pool_specs();
  pool->set_replica_count(*rc::gen::arbitrary<int64_t>());
  pool->mutable_machine_spec()->set_accelerator_type(
      static_cast<v1::AcceleratorType>(*rc::gen::inRange(0, 12)));
  const auto json = WriteJson(job, {.enums_as_integers = integers});
  RC_ASSERT(json.has_value());
  v1::CustomJob back;
  RC_ASSERT(ReadJson(*json, "", back).has_value());
  RC_ASSERT(google::protobuf::util::MessageDifferencer::Equals(job, back));
}

RC_GTEST_PROP(Json, AnyBytesAreReadOrRefused, (std::string bytes)) {
  v1::CustomJob job;
  const auto status = ReadJson(bytes, "custom_job", job);
  if (!status) RC_ASSERT(!status.error().message.empty());
}

}  // namespace
}  // namespace muster::server
