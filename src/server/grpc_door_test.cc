#include "server/grpc_door.h"

#include <gmock/gmock.h>
#include <google/cloud/aiplatform/v1/job_service.pb.h>
#include <google/protobuf/empty.pb.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "server/fake_job_control.h"
#include "server/server.h"
#include "server/test_client.h"

namespace muster::server {
namespace {

namespace v1 = google::cloud::aiplatform::v1;
using testing::HasSubstr;

constexpr const char* kParent = "projects/p/locations/us-central1";
const std::string kService = "/google.cloud.aiplatform.v1.JobService/";

class GrpcDoorTest : public testing::Test {
 protected:
  void SetUp() override { Start({}); }

  void Start(Server::Options options) {
    auto started = Server::Start(std::move(options), AllMethods(control_), control_);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    server_ = std::move(*started);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection for each test
    arguments.SetMaxReceiveMessageSize(-1);
    channel_ = grpc::CreateCustomChannel(server_->address(), grpc::InsecureChannelCredentials(),
                                         arguments);
  }

  grpc::Status CallBytes(const std::string& method, const std::string& bytes, std::string* response,
                         grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + kTestTimeout);
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer answer;
    std::promise<grpc::Status> done;
    grpc::GenericStub stub(channel_);
    stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &answer,
                   [&](grpc::Status status) { done.set_value(std::move(status)); });
    grpc::Status status = done.get_future().get();
    std::vector<grpc::Slice> slices;
    if (status.ok() && answer.Dump(&slices).ok()) {
      for (const auto& part : slices) {
        response->append(reinterpret_cast<const char*>(part.begin()), part.size());
      }
    }
    return status;
  }

  template <typename Response>
  grpc::Status Call(const std::string& method, const google::protobuf::Message& request,
                    Response* response) {
    grpc::ClientContext context;
    std::string bytes;
    grpc::Status status = CallBytes(method, request.SerializeAsString(), &bytes, context);
    if (status.ok()) {
      EXPECT_TRUE(response->ParseFromString(bytes));
    }
    return status;
  }

  FakeJobControl control_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

v1::CreateCustomJobRequest CreateRequest(const std::string& display_name) {
  v1::CreateCustomJobRequest request;
  request.set_parent(kParent);
  request.mutable_custom_job()->set_display_name(display_name);
  return request;
}

TEST_F(GrpcDoorTest, CreatesGetsAndCancels) {
  auto request = CreateRequest("a");
  request.mutable_custom_job()->set_name("a client's own idea");  // output only
  request.mutable_custom_job()->set_state(v1::JOB_STATE_SUCCEEDED);
  v1::CustomJob job;
  ASSERT_TRUE(Call(kService + "CreateCustomJob", request, &job).ok());
  EXPECT_EQ(control_.received().at(0).name(), "");
  EXPECT_EQ(job.state(), v1::JOB_STATE_QUEUED);

  v1::GetCustomJobRequest get;
  get.set_name(job.name());
  v1::CustomJob same;
  ASSERT_TRUE(Call("/google.cloud.aiplatform.v1beta1.JobService/GetCustomJob", get, &same).ok());
  EXPECT_EQ(same.SerializeAsString(), job.SerializeAsString());

  v1::CancelCustomJobRequest cancel;
  cancel.set_name(job.name());
  google::protobuf::Empty empty;
  EXPECT_TRUE(Call(kService + "CancelCustomJob", cancel, &empty).ok());

  get.set_name(std::string(kParent) + "/customJobs/1");
  const auto missing = Call(kService + "GetCustomJob", get, &same);
  EXPECT_EQ(missing.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(missing.error_message(), HasSubstr("customJobs/1"));
}

TEST_F(GrpcDoorTest, ListsWithAReadMask) {
  v1::CustomJob job;
  ASSERT_TRUE(Call(kService + "CreateCustomJob", CreateRequest("a"), &job).ok());
  v1::ListCustomJobsRequest request;
  request.set_parent(kParent);
  request.set_filter("state=\"JOB_STATE_QUEUED\"");
  request.mutable_read_mask()->add_paths("display_name");
  v1::ListCustomJobsResponse response;
  ASSERT_TRUE(Call(kService + "ListCustomJobs", request, &response).ok());
  EXPECT_EQ(control_.last_list().filter, request.filter());
  ASSERT_EQ(response.custom_jobs_size(), 1);
  EXPECT_EQ(response.custom_jobs(0).display_name(), "a");
  EXPECT_EQ(response.custom_jobs(0).name(), "");
  EXPECT_EQ(response.next_page_token(), "next");
}

TEST_F(GrpcDoorTest, WhatItCannotDoItNames) {
  v1::CustomJob job;
  for (const std::string method :
       {"google.cloud.aiplatform.v1.JobService/CreateHyperparameterTuningJob",
        "google.cloud.aiplatform.v1.MetadataService/GetMetadataStore", "a.B/c"}) {
    const auto status = Call("/" + method, CreateRequest("a"), &job);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_THAT(status.error_message(), HasSubstr(method));
  }
}

TEST_F(GrpcDoorTest, MalformedAndHugeMessagesAreRefused) {
  std::string answer;
  grpc::ClientContext malformed;
  const auto status = CallBytes(kService + "CreateCustomJob", "\xff\xff\xff", &answer, malformed);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("CreateCustomJobRequest"));

  grpc::ClientContext huge;
  EXPECT_EQ(CallBytes(kService + "CreateCustomJob", std::string(33 << 20, 'x'), &answer, huge)
                .error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);

  v1::CustomJob job;
  auto bad_name = CreateRequest("a");
  bad_name.set_parent("projects/p");
  const auto named = Call(kService + "CreateCustomJob", bad_name, &job);
  EXPECT_EQ(named.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(named.error_message(), HasSubstr("'parent'"));
  EXPECT_EQ(Call(kService + "CreateCustomJob", CreateRequest("throw"), &job).error_code(),
            grpc::StatusCode::INTERNAL);
  EXPECT_TRUE(Call(kService + "CreateCustomJob", CreateRequest("a"), &job).ok());
}

TEST_F(GrpcDoorTest, TenMegabytesGoThrough) {
  auto request = CreateRequest("a");
  for (int i = 0; i < 10; ++i) {
    (*request.mutable_custom_job()->mutable_labels())[std::to_string(i)] =
        std::string(1 << 20, 'x');
  }
  v1::CustomJob job;
  ASSERT_TRUE(Call(kService + "CreateCustomJob", request, &job).ok());
  EXPECT_EQ(job.labels_size(), 10);
}

TEST_F(GrpcDoorTest, ACallerThatGivesUpHarmsNothing) {
  server_.reset();
  std::promise<void> entered;
  std::promise<void> leave;
  bool first = true;
  control_.before_create = [&] {
    if (!std::exchange(first, false)) return;
    entered.set_value();
    leave.get_future().wait_for(kTestTimeout);
  };
  Start({.worker_threads = 1});
  grpc::ClientContext context;
  std::thread caller([&] {
    std::string answer;
    const auto status = CallBytes(kService + "CreateCustomJob",
                                  CreateRequest("a").SerializeAsString(), &answer, context);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  });
  ASSERT_EQ(entered.get_future().wait_for(kTestTimeout), std::future_status::ready);
  context.TryCancel();
  caller.join();
  leave.set_value();
  v1::CustomJob job;
  EXPECT_TRUE(Call(kService + "CreateCustomJob", CreateRequest("b"), &job).ok());
}

TEST_F(GrpcDoorTest, AConnectionThatComesBytewiseIsServed) {
  // The client's preface, an empty SETTINGS frame; the server must answer with its own SETTINGS.
  TestClient client(server_->address());
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (const char c : preface) ASSERT_TRUE(client.Send({&c, 1}));
  ASSERT_TRUE(client.Send(std::string("\0\0\0\x04\0\0\0\0\0", 9)));
  while (client.unread().size() < 9) ASSERT_TRUE(client.ReadSome());
  EXPECT_EQ(client.unread()[3], '\x04');
}

TEST_F(GrpcDoorTest, ShutdownEndsIdleConnections) {
  v1::CustomJob job;
  ASSERT_TRUE(Call(kService + "CreateCustomJob", CreateRequest("a"), &job).ok());
  server_->Shutdown();
  EXPECT_EQ(Call(kService + "CreateCustomJob", CreateRequest("a"), &job).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace muster::server
