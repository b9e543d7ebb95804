#include "server/transcode/transcoder.h"

#include <gmock/gmock.h>
#include <google/cloud/aiplatform/v1/job_service.pb.h>
#include <gtest/gtest.h>
#include <muster/v1/job_view.pb.h>

#include "server/fake_job_control.h"
#include "server/server.h"

namespace muster::server {
namespace {

using testing::HasSubstr;

class TranscoderTest : public testing::Test {
 protected:
  std::expected<RestCall, HttpError> Read(std::string_view method, std::string_view target,
                                          std::string_view body = "") {
    return transcoder_.Read({method, target, body});
  }
  FakeJobControl control_;
  MethodTable methods_ = AllMethods(control_);
  Transcoder transcoder_{methods_, OfficialTranscoderOptions()};
};

TEST_F(TranscoderTest, RoutesByMethodAndPath) {
  struct Case {
    const char* method;
    const char* target;
    const char* name;
    const char* request;
  };
  const Case cases[] = {
      {"GET", "/v1/projects/p/locations/l/customJobs/7", "JobService/GetCustomJob",
       "name: \"projects/p/locations/l/customJobs/7\""},
      {"GET", "/v1beta1/projects/p/locations/l/customJobs?pageSize=3", "JobService/ListCustomJobs",
       "parent: \"projects/p/locations/l\" page_size: 3"},
      {"DELETE", "/v1/projects/p/locations/l/customJobs/7?alt=json", "JobService/DeleteCustomJob",
       "name: \"projects/p/locations/l/customJobs/7\""},
      {"POST", "/v1/projects/p/locations/l/customJobs/7:cancel", "JobService/CancelCustomJob",
       "name: \"projects/p/locations/l/customJobs/7\""},
      {"POST", "/v1/projects/p/locations/l/customJobs/7%401:cancel", "JobService/CancelCustomJob",
       "name: \"projects/p/locations/l/customJobs/7@1\""},
      {"GET", "/ui/projects/p/locations/l/customJobs/7/operations/8", "Operations/GetOperation",
       "name: \"projects/p/locations/l/customJobs/7/operations/8\""},
      {"GET", "/v1/projects/p/locations/l/operations/8", "Operations/GetOperation",
       "name: \"projects/p/locations/l/operations/8\""},
      {"GET", "/v1/operations/8", "Operations/GetOperation", "name: \"operations/8\""},
      {"GET", "/muster/v1/projects/p/locations/l/customJobs/7", "JobViewService/GetJobView",
       "name: \"projects/p/locations/l/customJobs/7\""},
      {"GET", "/muster/v1/projects/p/locations/l/customJobs/7/logs?task_name=service",
       "JobViewService/ListLogEntries",
       "name: \"projects/p/locations/l/customJobs/7\" task_name: \"service\""},
  };
  for (const Case& c : cases) {
    const auto call = Read(c.method, c.target);
    ASSERT_TRUE(call.has_value()) << c.target << ": " << call.error().error.message;
    EXPECT_THAT(call->method_name, testing::EndsWith(c.name));
    EXPECT_EQ(call->request->ShortDebugString(), c.request);
  }
}

TEST_F(TranscoderTest, TheBodyIsTheBareResource) {
  const auto call = Read("POST", "/v1/projects/p/locations/l/customJobs", R"({"displayName":"a"})");
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->request->ShortDebugString(),
            "parent: \"projects/p/locations/l\" custom_job { display_name: \"a\" }");
}

TEST_F(TranscoderTest, ThePathWinsOverTheBody) {
  const auto call =
      Read("POST", "/v1/projects/p/locations/l/customJobs/7:cancel", R"({"name":"other"})");
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->request->ShortDebugString(), "name: \"projects/p/locations/l/customJobs/7\"");
}

TEST_F(TranscoderTest, Refusals) {
  const auto expect = [&](std::string_view method, std::string_view target, int status,
                          const std::string& message, std::string_view body = "") {
    const auto call = Read(method, target, body);
    ASSERT_FALSE(call.has_value()) << target;
    EXPECT_EQ(call.error().status, status) << target;
    EXPECT_THAT(call.error().error.message, HasSubstr(message));
  };
  expect("GET", "/", 404, "was not found");
  expect("GET", "", 404, "was not found");
  expect("GET", "*", 404, "was not found");
  expect("GET", "/v1/projects/p/locations/l/customJobs/7/", 404, "was not found");
  expect("GET", "/v2/projects/p/locations/l/customJobs/7", 404, "was not found");
  expect("GET", "/ui/projects/p/locations/l/customJobs/7", 404, "was not found");
  expect("PUT", "/v1/projects/p/locations/l/customJobs", 405, "POST, GET");
  expect("GET", "/v1/projects/p/locations/l/customJobs/7:cancel", 405, "POST");
  expect("POST", "/v1/projects/p/locations/l/nasJobs", 501, "JobService/CreateNasJob");
  expect("DELETE", "/v1/operations/1", 501, "Operations/DeleteOperation");
  expect("GET", "/v1/projects/p/locations/l/customJobs?x=1", 400, "\"x\"");
  expect("GET", "/v1/projects/p/locations/l/customJobs?pageSize=%", 400, "percent-encoding");
  expect("GET", "/v1/projects/p/locations/l/customJobs/%ff", 400, "'name'");
  expect("GET", "/v1/projects/p/locations/l/customJobs", 400, "no request body", "{\"a\":1}");
  expect("GET", "/v1/projects/p/locations/l/customJobs?parent=x", 400, "more than once");
}

TEST_F(TranscoderTest, TellsWhichMethodsAPathHas) {
  EXPECT_EQ(transcoder_.AllowedMethods("/v1/projects/p/locations/l/customJobs/7"), "GET, DELETE");
  EXPECT_EQ(transcoder_.AllowedMethods("/v1/projects/p/locations/l/customJobs/7:cancel"), "POST");
  EXPECT_EQ(transcoder_.AllowedMethods("/nowhere"), "");
}

}  // namespace
}  // namespace muster::server
