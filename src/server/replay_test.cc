// Replays what official clients sent (tests/golden/requests) and checks what arrives and what is
// answered.
#include <gmock/gmock.h>
#include <google/cloud/aiplatform/v1/job_service.pb.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "server/call.h"
#include "server/fake_job_control.h"
#include "server/server.h"
#include "server/test_client.h"
#include "server/transcode/json.h"

namespace muster::server {
namespace {

using nlohmann::json;
namespace v1 = google::cloud::aiplatform::v1;

std::vector<json> Recorded(const std::string& file) {
  std::ifstream in(std::string(MUSTER_SOURCE_DIR) + "/tests/golden/requests/" + file);
  std::vector<json> requests;
  for (std::string line; std::getline(in, line);) requests.push_back(json::parse(line));
  EXPECT_FALSE(requests.empty()) << file;
  return requests;
}

// The resource names that a recorded request counts on.
void Prepare(FakeJobControl& control, const std::string& name) {
  const size_t job = name.find("/customJobs/");
  if (job == std::string::npos) return;
  if (name.find("/operations/") != std::string::npos) {
    control.AddOperation(name);
  } else if (!name.ends_with("/999") && !name.ends_with("/1")) {
    control.AddJob(name.substr(0, name.find(':', job)));
  }
}

class ReplayTest : public testing::TestWithParam<std::string> {
 protected:
  FakeJobControl control_;
};

// What the body means, read without the server: the expected job, less what only a server sets.
v1::CustomJob ExpectedJob(const json& body) {
  v1::CustomJob job;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(body.dump(), &job).ok()) << body;
  job.clear_web_access_uris();
  return job;
}

void CheckJobJson(const json& answer, bool integers) {
  EXPECT_TRUE(answer.contains("name"));
  if (!answer.contains("state")) return;  // the fake's prepared jobs have none
  EXPECT_EQ(answer["state"].is_number(), integers);
  const json pools = answer.value("/jobSpec/workerPoolSpecs"_json_pointer, json::array());
  for (const auto& pool : pools) EXPECT_TRUE(pool["replicaCount"].is_string());
}

TEST_P(ReplayTest, Rest) {
  const auto server = Server::Start({}, AllMethods(control_), control_);
  ASSERT_TRUE(server.has_value());
  TestClient client((*server)->address());
  for (const json& request : Recorded(GetParam())) {
    if (!request.contains("path")) continue;
    const std::string method = request["method"];
    const std::string path = request["path"];
    const std::string query = request.value("query", "");
    const std::string body = request.contains("body") ? request["body"].dump() : "";
    Prepare(control_, path.substr(path.find('/', 1) + 1));
    SCOPED_TRACE(method + " " + path + "?" + query);

    const size_t received_before = control_.received().size();
    std::string headers;
    for (const auto& [name, value] : request["headers"].items()) {
      headers += name + ": " + value.get<std::string>() + "\r\n";
    }
    const auto response =
        client.Call(method, path + (query.empty() ? "" : "?" + query), body, headers);
    ASSERT_TRUE(json::accept(response.body)) << response.body;
    const json answer = json::parse(response.body);
    const bool integers = query.find("enum-encoding") != std::string::npos;

    if (path.find("/customJobs") == std::string::npos) {
      const bool operation = path.find("/operations/") != std::string::npos;
      EXPECT_EQ(response.status, operation ? 404 : 501) << response.body;
    } else if (body.find("\"bad\"") != std::string::npos) {
      EXPECT_EQ(response.status, 400);
      EXPECT_EQ(answer["error"]["status"], "INVALID_ARGUMENT");
    } else if (path.ends_with("/999") || path.ends_with("/1")) {
      EXPECT_EQ(response.status, 404);
    } else {
      ASSERT_EQ(response.status, 200) << response.body;
      if (method == "POST" && path.ends_with("/customJobs")) {
        ASSERT_EQ(control_.received().size(), received_before + 1);
        EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(
            control_.received().back(), ExpectedJob(request["body"])));
        CheckJobJson(answer, integers);
      } else if (path.ends_with(":cancel")) {
        EXPECT_EQ(answer, json::object());
      } else if (method == "GET" && path.ends_with("/customJobs")) {
        for (const auto& job : answer["customJobs"]) CheckJobJson(job, integers);
        EXPECT_EQ(control_.last_list().filter.find('%'), std::string::npos);
      } else {
        EXPECT_TRUE(answer.contains("name"));
      }
    }
  }
}

// The gRPC calls' bodies, through the same table that the gRPC door uses.
TEST_P(ReplayTest, Grpc) {
  const MethodTable methods = AllMethods(control_);
  for (const json& request : Recorded(GetParam())) {
    if (request.contains("path")) continue;
    const std::string name = request["method"].get<std::string>().substr(1);
    SCOPED_TRACE(name);
    const Method* const method = methods.Find(name);
    if (name.find("HyperparameterTuningJob") != std::string::npos) {
      EXPECT_EQ(method, nullptr);
      continue;
    }
    ASSERT_NE(method, nullptr);
    const MessagePtr message(google::protobuf::MessageFactory::generated_factory()
                                 ->GetPrototype(method->request)
                                 ->New());
    ASSERT_TRUE(ReadJson(request["body"].dump(), "", *message).has_value());
    if (request["body"].contains("name")) Prepare(control_, request["body"]["name"]);
    const auto answer = RunCall(*method, *message, {name, "test"});
    if (request["call"] == "grpc:customjob_bad") {
      EXPECT_FALSE(answer.has_value());
    } else if (request["call"] == "grpc:hpt_delete") {
      EXPECT_EQ(answer.error().code, Code::kNotFound);
    } else {
      EXPECT_TRUE(answer.has_value()) << request.dump();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Clients, ReplayTest,
                         testing::Values("python-sdk-rest.jsonl", "node.jsonl", "gcloud.jsonl",
                                         "python-sdk-grpc.jsonl"));

}  // namespace
}  // namespace muster::server
