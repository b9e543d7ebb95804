// What this module's tests share.
#pragma once

#include <google/cloud/aiplatform/v1/custom_job.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace muster::job {

// Fails the test if `json` is not one.
inline google::cloud::aiplatform::v1::CustomJob JobFromJson(std::string_view json) {
  google::cloud::aiplatform::v1::CustomJob job;
  const auto status = google::protobuf::util::JsonStringToMessage({json.data(), json.size()}, &job);
  EXPECT_TRUE(status.ok()) << status.ToString() << "\n" << json;
  return job;
}

}  // namespace muster::job
