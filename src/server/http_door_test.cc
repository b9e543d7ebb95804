#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "server/fake_job_control.h"
#include "server/server.h"
#include "server/test_client.h"

namespace muster::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kJobs = "/v1/projects/p/locations/us-central1/customJobs";
constexpr const char* kIntegers = "?%24alt=json%3Benum-encoding%3Dint";

class HttpDoorTest : public testing::Test {
 protected:
  void SetUp() override { Start({}); }

  void Start(Server::Options options) {
    auto started = Server::Start(std::move(options), AllMethods(control_), control_);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    server_ = std::move(*started);
  }

  TestResponse Call(std::string_view method, std::string_view target, std::string_view body = "",
                    std::string_view headers = "") {
    return TestClient(server_->address()).Call(method, target, body, headers);
  }

  FakeJobControl control_;
  std::unique_ptr<Server> server_;
};

void ExpectError(const TestResponse& response, int code, const std::string& status,
                 const std::string& message_part) {
  EXPECT_EQ(response.status, code);
  ASSERT_TRUE(json::accept(response.body)) << response.body;
  const auto body = json::parse(response.body);
  EXPECT_EQ(body["error"]["code"], code);
  EXPECT_EQ(body["error"]["status"], status);
  EXPECT_EQ(body["error"]["details"], json::array());
  EXPECT_THAT(body["error"]["message"].get<std::string>(), HasSubstr(message_part));
  EXPECT_EQ(body.size(), 1u);
  EXPECT_EQ(body["error"].size(), 4u);
}

TEST_F(HttpDoorTest, AJobsWholeLife) {
  TestClient client(server_->address());
  auto created = client.Call("POST", std::string(kJobs) + "?alt=json", R"({"displayName":"a"})");
  EXPECT_EQ(created.status, 200) << created.body;
  EXPECT_EQ(created.headers["content-type"], "application/json; charset=UTF-8");
  const auto job = json::parse(created.body);
  EXPECT_EQ(job["state"], "JOB_STATE_QUEUED");
  const std::string name = job["name"];
  EXPECT_EQ(client.Call("GET", "/v1/" + name).body, created.body);
  EXPECT_EQ(client.Call("GET", "/v1beta1/" + name).body, created.body);

  const auto list = json::parse(client.Call("GET", kJobs).body);
  EXPECT_EQ(list["customJobs"].size(), 1u);
  EXPECT_EQ(list["nextPageToken"], "next");

  EXPECT_EQ(client.Call("POST", "/v1/" + name + ":cancel").body, "{}");
  const auto integers = json::parse(client.Call("GET", "/v1/" + name + kIntegers).body);
  EXPECT_EQ(integers["state"], 7);

  const auto deleted = json::parse(client.Call("DELETE", "/v1/" + name).body);
  EXPECT_EQ(deleted["metadata"]["@type"],
            "type.googleapis.com/google.cloud.aiplatform.v1.DeleteOperationMetadata");
  EXPECT_EQ(deleted["response"]["@type"], "type.googleapis.com/google.protobuf.Empty");
  for (const std::string version : {"/ui/", "/v1/", "/v1beta1/"}) {
    const auto operation = client.Call("GET", version + deleted["name"].get<std::string>());
    EXPECT_EQ(json::parse(operation.body), deleted) << version;
  }
  ExpectError(client.Call("GET", "/v1/" + name), 404, "NOT_FOUND", name);
}

TEST_F(HttpDoorTest, ErrorsHaveTheEnvelope) {
  ExpectError(Call("POST", kJobs, R"({"displayName":"bad"})"), 400, "INVALID_ARGUMENT",
              "List of found errors:\t1.Field");
  ExpectError(Call("POST", kJobs, R"({"jobSpec":{"foo":1}})"), 400, "INVALID_ARGUMENT",
              "Invalid JSON payload received. Unknown name \"foo\" at 'custom_job.job_spec': "
              "Cannot find field.");
  ExpectError(Call("POST", kJobs, "{\"displayName\":"), 400, "INVALID_ARGUMENT", "Invalid JSON");
  ExpectError(Call("POST", kJobs), 400, "INVALID_ARGUMENT", "custom_job");
  ExpectError(Call("GET", "/nowhere"), 404, "NOT_FOUND", "/nowhere");
  ExpectError(Call("GET", "/%zz/\xff"), 404, "NOT_FOUND", "was not found");
  ExpectError(Call("GET", std::string(kJobs) + "?nope=1"), 400, "INVALID_ARGUMENT", "nope");
  ExpectError(Call("GET", "/v1/projects/p/locations/l/hyperparameterTuningJobs"), 501,
              "UNIMPLEMENTED", "JobService/ListHyperparameterTuningJobs");
  const auto wrong_method = Call("PATCH", kJobs);
  ExpectError(wrong_method, 405, "UNIMPLEMENTED", "PATCH");
  EXPECT_EQ(wrong_method.headers.at("allow"), "POST, GET");
  ExpectError(Call("POST", kJobs, R"({"displayName":"throw"})"), 500, "INTERNAL", "log says more");
}

TEST_F(HttpDoorTest, AgentsReport) {
  const auto response = Call("POST", "/muster/v1/agents:report",
                             R"({"id":{"jobUid":"u"},"token":"secret","alive":{}})");
  EXPECT_EQ(response.body, R"({"stop":true})");
  ExpectError(Call("POST", "/muster/v1/agents:report", R"({"id":{},"token":"x"})"), 401,
              "UNAUTHENTICATED", "wrong token");
}

TEST_F(HttpDoorTest, HealthMetricsHeadAndOptions) {
  EXPECT_EQ(Call("GET", "/healthz").body, "ok");
  Call("GET", kJobs);
  Call("GET", "/nowhere");
  const auto metrics = Call("GET", "/metrics");
  EXPECT_THAT(metrics.headers.at("content-type"), HasSubstr("text/plain"));
  EXPECT_THAT(metrics.body, HasSubstr("muster_jobs_created_total 3\n"));
  EXPECT_THAT(metrics.body, HasSubstr("muster_replicas_running 4\n"));
  EXPECT_THAT(metrics.body,
              HasSubstr("method=\"google.cloud.aiplatform.v1.JobService/ListCustomJobs\"} 1\n"));
  EXPECT_THAT(metrics.body, HasSubstr("code=\"NOT_FOUND\""));
  EXPECT_THAT(metrics.body, HasSubstr("muster_api_latency_seconds_bucket"));

  TestClient client(server_->address());
  const auto head = client.Call("HEAD", "/healthz");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), "2");
  EXPECT_EQ(client.Call("HEAD", kJobs).status, 200);
  const auto options = client.Call("OPTIONS", kJobs);
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.headers.at("allow"), "POST, GET, OPTIONS");
  EXPECT_EQ(client.Call("GET", "/healthz").body, "ok") << "the connection is still in step";
}

TEST_F(HttpDoorTest, PipelinedRequestsAreAnsweredInOrder) {
  TestClient client(server_->address());
  std::string bytes;
  for (int i = 0; i < 20; ++i) {
    bytes += TestClient::Format("POST", kJobs, fmt::format(R"({{"displayName":"job {}"}})", i));
  }
  ASSERT_TRUE(client.Send(bytes));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(json::parse(client.Receive().body)["displayName"], fmt::format("job {}", i));
  }
}

TEST_F(HttpDoorTest, BytesMayComeOneAtATime) {
  TestClient client(server_->address());
  for (const char c : TestClient::Format("POST", kJobs, R"({"displayName":"slow"})")) {
    ASSERT_TRUE(client.Send({&c, 1}));
  }
  EXPECT_EQ(json::parse(client.Receive().body)["displayName"], "slow");
}

TEST_F(HttpDoorTest, AClientThatHasClosedItsSideGetsItsAnswer) {
  TestClient client(server_->address());
  ASSERT_TRUE(client.Send(TestClient::Format("GET", "/healthz")));
  client.CloseWriting();
  EXPECT_EQ(client.Receive().body, "ok");
  EXPECT_TRUE(client.ServerCloses());
}

TEST_F(HttpDoorTest, GarbageIsRefusedAndTheConnectionClosed) {
  for (const std::string& bytes : {std::string("\0\0\0\0\r\n\r\n", 8), std::string("hello\r\n\r\n"),
                                   std::string("GET / HTTP/9.9\r\n\r\n"),
                                   std::string("POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n")}) {
    TestClient client(server_->address());
    ASSERT_TRUE(client.Send(bytes));
    ExpectError(client.Receive(), 400, "INVALID_ARGUMENT", "HTTP");
    EXPECT_TRUE(client.ServerCloses());
  }
  TestClient cut(server_->address());
  ASSERT_TRUE(cut.Send("POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\nabc"));
  cut.CloseWriting();
  EXPECT_TRUE(cut.ServerCloses());
  EXPECT_EQ(Call("GET", "/healthz").body, "ok");
}

TEST_F(HttpDoorTest, HugeHeadersAndBodiesAreRefused) {
  const std::string header = "X-Goog-Large: " + std::string(70'000, 'x') + "\r\n";
  ExpectError(Call("GET", "/healthz", "", header), 431, "INVALID_ARGUMENT", "65536 bytes");

  const std::string large(33 << 20, ' ');
  TestClient declared(server_->address());
  ExpectError(declared.Call("POST", kJobs, large), 413, "INVALID_ARGUMENT", "33554432 bytes");

  TestClient chunked(server_->address());
  ASSERT_TRUE(chunked.Send("POST " + std::string(kJobs) +
                           " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"));
  const std::string chunk = "100000\r\n" + std::string(1 << 20, ' ') + "\r\n";
  for (int i = 0; i < 33; ++i) {
    if (!chunked.Send(chunk)) break;
  }
  ExpectError(chunked.Receive(), 413, "INVALID_ARGUMENT", "33554432 bytes");
}

TEST_F(HttpDoorTest, TenMegabytesOfJsonAreRead) {
  json body = {{"displayName", "large"}, {"labels", json::object()}};
  for (int i = 0; i < 100'000; ++i) {
    body["labels"][fmt::format("key{}", i)] = std::string(90, 'v');
  }
  const auto response = Call("POST", kJobs, body.dump());
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(json::parse(response.body)["labels"], body["labels"]);
}

TEST_F(HttpDoorTest, Expect100ContinueIsAnsweredBeforeTheBody) {
  TestClient client(server_->address());
  const std::string body = R"({"displayName":"later"})";
  ASSERT_TRUE(client.Send(fmt::format(
      "POST {} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n", kJobs,
      body.size())));
  EXPECT_EQ(client.Receive().status, 100);
  ASSERT_TRUE(client.Send(body));
  EXPECT_EQ(json::parse(client.Receive().body)["displayName"], "later");
}

TEST_F(HttpDoorTest, PagesOfOtherSitesAreRefused) {
  ExpectError(Call("POST", kJobs, R"({"displayName":"evil"})", "Origin: http://evil.example\r\n"),
              403, "PERMISSION_DENIED", "evil.example");
  EXPECT_TRUE(control_.received().empty());
  EXPECT_EQ(Call("GET", "/healthz", "", "Origin: http://127.0.0.1\r\n").status, 200);
}

// Handlers that wait until they are let go.
class Gate {
 public:
  void Wait() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait_for(lock, kTestTimeout, [this] { return open_; });
  }
  bool AwaitWaiting(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kTestTimeout, [&] { return waiting_ >= count; });
  }
  void Open() {
    std::unique_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

TEST_F(HttpDoorTest, MoreCallsThanFitAreToldToComeAgain) {
  server_.reset();
  Gate gate;
  control_.before_create = [&] { gate.Wait(); };
  Start({.worker_threads = 2, .calls_waiting_max = 1});
  TestClient first(server_->address());
  TestClient second(server_->address());
  const auto create = TestClient::Format("POST", kJobs, R"({"displayName":"a"})");
  ASSERT_TRUE(first.Send(create));
  ASSERT_TRUE(second.Send(create));
  ASSERT_TRUE(gate.AwaitWaiting(2));
  // Of three more, one waits in the queue and two are refused.
  std::mutex mutex;
  std::condition_variable answered;
  std::vector<TestResponse> refused;
  int succeeded = 0;
  std::vector<std::jthread> more;
  for (int i = 0; i < 3; ++i) {
    more.emplace_back([&] {
      TestClient client(server_->address());
      client.Send(create);
      const auto response = client.Receive();
      const std::lock_guard lock(mutex);
      response.status == 200 ? ++succeeded : (refused.push_back(response), 0);
      answered.notify_all();
    });
  }
  {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(answered.wait_for(lock, kTestTimeout, [&] { return refused.size() == 2; }));
  }
  EXPECT_EQ(Call("GET", "/healthz").body, "ok") << "health needs no worker";
  gate.Open();
  more.clear();
  EXPECT_EQ(succeeded, 1);
  for (const auto& response : refused) ExpectError(response, 503, "UNAVAILABLE", "busy");
  EXPECT_EQ(first.Receive().status, 200);
  EXPECT_EQ(second.Receive().status, 200);
}

TEST_F(HttpDoorTest, ShutdownLetsARunningCallFinish) {
  server_.reset();
  Gate gate;
  control_.before_create = [&] { gate.Wait(); };
  Start({});
  TestClient idle(server_->address());
  EXPECT_EQ(idle.Call("GET", "/healthz").body, "ok");
  TestClient busy(server_->address());
  ASSERT_TRUE(busy.Send(TestClient::Format("POST", kJobs, R"({"displayName":"a"})")));
  ASSERT_TRUE(gate.AwaitWaiting(1));
  std::thread shutdown([&] { server_->Shutdown(); });
  EXPECT_TRUE(idle.ServerCloses());
  EXPECT_FALSE(TestClient(server_->address()).connected());
  gate.Open();
  const auto response = busy.Receive();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.at("connection"), "close");
  EXPECT_TRUE(busy.ServerCloses());
  shutdown.join();
}

size_t OpenDescriptors() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    count += entry.is_symlink() ? 1 : 0;
  }
  return count;
}

TEST_F(HttpDoorTest, NoDescriptorIsLeftBehind) {
  const auto round = [&] {
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(Call("GET", "/healthz").body, "ok");
      TestClient(server_->address()).Send("GET / HT");
      TestClient(server_->address()).Send("PRI * HT");
      TestClient(server_->address()).Send("\x16\x03\x01");
      TestClient(server_->address()).Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    }
    server_->Shutdown();
    server_.reset();
    return OpenDescriptors();
  };
  const size_t first = round();
  Start({});
  EXPECT_LE(round(), first);
}

}  // namespace
}  // namespace muster::server
