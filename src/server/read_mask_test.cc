#include "server/read_mask.h"

#include <google/cloud/aiplatform/v1/job_service.pb.h>
#include <gtest/gtest.h>

#include "server/field_behavior.h"

namespace muster::server {
namespace {

namespace v1 = google::cloud::aiplatform::v1;

v1::ListCustomJobsResponse Jobs() {
  v1::ListCustomJobsResponse response;
  response.set_next_page_token("t");
  auto* job = response.add_custom_jobs();
  job->set_name("n");
  job->set_display_name("d");
  (*job->mutable_labels())["a"] = "b";
  auto* pool = job->mutable_job_spec()->add_worker_pool_specs();
  pool->set_replica_count(2);
  pool->mutable_machine_spec()->set_machine_type("n1-standard-4");
  job->mutable_job_spec()->set_network("x");
  return response;
}

std::string Masked(std::initializer_list<std::string> paths) {
  v1::ListCustomJobsRequest request;
  for (const auto& path : paths) request.mutable_read_mask()->add_paths(path);
  auto response = Jobs();
  const auto status = CheckReadMask(request, *response.GetDescriptor());
  if (!status) return status.error().message;
  ApplyReadMask(request, response);
  return response.ShortDebugString();
}

TEST(ReadMask, KeepsOnlyWhatItNames) {
  const std::string all = Jobs().ShortDebugString();
  EXPECT_EQ(Masked({}), all);
  EXPECT_EQ(Masked({"*"}), all);
  EXPECT_EQ(Masked({"name"}), "custom_jobs { name: \"n\" } next_page_token: \"t\"");
  EXPECT_EQ(Masked({"custom_jobs.name"}), "custom_jobs { name: \"n\" } next_page_token: \"t\"");
  EXPECT_EQ(Masked({"custom_jobs/display_name", "name"}),
            "custom_jobs { name: \"n\" display_name: \"d\" } next_page_token: \"t\"");
  EXPECT_EQ(Masked({"labels"}),
            "custom_jobs { labels { key: \"a\" value: \"b\" } } next_page_token: \"t\"");
  EXPECT_EQ(Masked({"job_spec.worker_pool_specs.machine_spec"}),
            "custom_jobs { job_spec { worker_pool_specs { machine_spec { machine_type: "
            "\"n1-standard-4\" } } } } next_page_token: \"t\"");
  EXPECT_EQ(Masked({"job_spec.network", "job_spec", "job_spec.network"}), Masked({"job_spec"}));
  EXPECT_EQ(Masked({"custom_jobs"}), all);
  EXPECT_EQ(Masked({"next_page_token"}), "next_page_token: \"t\"");
}

TEST(ReadMask, NamesAPathThatDoesNotExist) {
  EXPECT_EQ(Masked({"name", "foo"}),
            "Invalid value at 'read_mask' (type.googleapis.com/google.protobuf.FieldMask), "
            "\"foo\": the answer has no such field");
  EXPECT_NE(Masked({"name.x"}).find("\"name.x\""), std::string::npos);
  EXPECT_NE(Masked({"labels.a"}).find("\"labels.a\""), std::string::npos);
  EXPECT_NE(Masked({""}).find("\"\""), std::string::npos);
}

TEST(ReadMask, IsNothingToMethodsWithoutOne) {
  v1::GetCustomJobRequest request;
  request.set_name("n");
  v1::CustomJob job;
  job.set_name("n");
  EXPECT_TRUE(CheckReadMask(request, *job.GetDescriptor()).has_value());
  ApplyReadMask(request, job);
  EXPECT_EQ(job.name(), "n");
}

TEST(ClearOutputOnly, AtAnyDepth) {
  v1::CreateCustomJobRequest request;
  request.set_parent("p");
  auto* job = request.mutable_custom_job();
  job->set_name("n");
  job->set_display_name("d");
  job->set_state(v1::JOB_STATE_FAILED);
  (*job->mutable_web_access_uris())["a"] = "b";
  job->mutable_create_time();
  job->mutable_job_spec()->add_worker_pool_specs()->set_replica_count(1);
  ClearOutputOnly(request);
  EXPECT_EQ(request.ShortDebugString(),
            "parent: \"p\" custom_job { display_name: \"d\" job_spec { worker_pool_specs { "
            "replica_count: 1 } } }");

  v1::CreateHyperparameterTuningJobRequest tuning;  // trials are output only, two levels down
  tuning.mutable_hyperparameter_tuning_job()->add_trials();
  tuning.mutable_hyperparameter_tuning_job()->set_max_trial_count(3);
  ClearOutputOnly(tuning);
  EXPECT_EQ(tuning.ShortDebugString(), "hyperparameter_tuning_job { max_trial_count: 3 }");
}

}  // namespace
}  // namespace muster::server
