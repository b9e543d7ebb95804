#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "server/fake_job_control.h"
#include "server/server.h"
#include "server/test_client.h"
#include "server/test_logs.h"

namespace muster::server {
namespace {

using testing::HasSubstr;

const std::string kStream = std::string("/muster/v1/") + kTestJob + "/logs:stream";

class LogStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    control_.SetLogs(kTestJob, logs_.sources());
    Start({.log_poll = std::chrono::milliseconds(5)});
  }
  void Start(Server::Options options) {
    auto started = Server::Start(std::move(options), AllMethods(control_), control_);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    server_ = std::move(*started);
  }
  void EndJob(int state) {
    auto sources = logs_.sources();
    sources.ended = true;
    sources.state = state;
    control_.SetLogs(kTestJob, sources);
  }

  // A reader behind the response's header.
  std::unique_ptr<TestClient> Open(const std::string& target, const std::string& headers = "") {
    auto client = std::make_unique<TestClient>(server_->address());
    EXPECT_TRUE(client->Send(TestClient::Format("GET", target, "", headers)));
    TestResponse response;
    EXPECT_TRUE(client->ReceiveHeader(response));
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.headers["content-type"], "text/event-stream");
    return client;
  }

  // Reads until the text has come, or the stream ends.
  static std::string ReadUntil(TestClient& client, std::string_view text) {
    std::string all;
    while (all.find(text) == std::string::npos) {
      const std::string chunk = client.ReceiveChunk();
      if (chunk.empty()) break;
      all += chunk;
    }
    return all;
  }

  FakeJobControl control_;
  TestLogs logs_{{"workerpool0-0/0", "workerpool1-0/0"}};
  std::unique_ptr<Server> server_;
};

TEST_F(LogStreamTest, FollowsUntilTheJobEnds) {
  logs_.Write("workerpool0-0/0", 1, "early");
  const auto client = Open(kStream);
  EXPECT_THAT(ReadUntil(*client, "early"), HasSubstr("event: log\ndata: {"));
  logs_.Write("workerpool1-0/0", 2, "late");
  ReadUntil(*client, "late");
  logs_.Write("workerpool1-0/0", 3, "last words");
  EndJob(4);
  const std::string end = ReadUntil(*client, "event: end");
  EXPECT_LT(end.find("last words"), end.find("event: end"));
  EXPECT_THAT(end, HasSubstr("data: {\"state\":\"JOB_STATE_SUCCEEDED\"}\n\n"));
  EXPECT_EQ(client->ReceiveChunk(), "") << "the last chunk";
  EXPECT_EQ(client->Call("GET", "/healthz").body, "ok") << "the connection goes on";
}

TEST_F(LogStreamTest, ResumesAfterAnId) {
  for (int i = 0; i < 10; ++i) logs_.Write("workerpool0-0/0", i + 1, fmt::format("line {}.", i));
  EndJob(5);
  const auto whole = ReadUntil(*Open(kStream), "event: end");
  const size_t at = whole.find("line 3.");
  const size_t id = whole.rfind("id: ", at) + 4;
  const std::string last_id = whole.substr(id, whole.find('\n', id) - id);
  for (const auto& [target, headers] : std::vector<std::pair<std::string, std::string>>{
           {kStream, "Last-Event-ID: " + last_id + "\r\n"},
           {kStream + "?lastEventId=" + last_id, ""},
           {kStream + "?lastEventId=1", "Last-Event-ID: " + last_id + "\r\n"}}) {
    const auto rest = ReadUntil(*Open(target, headers), "event: end");
    EXPECT_EQ(rest.find("line 3."), std::string::npos);
    EXPECT_THAT(rest, HasSubstr("line 4."));
    EXPECT_THAT(rest, HasSubstr("line 9."));
    EXPECT_THAT(rest, HasSubstr("JOB_STATE_FAILED"));
  }
}

TEST_F(LogStreamTest, ParametersAreRead) {
  for (int i = 0; i < 10; ++i) logs_.Write("workerpool0-0/0", i + 1, fmt::format("line {}.", i));
  logs_.Write("workerpool1-0/0", 5, "other");
  EndJob(4);
  const auto tail = ReadUntil(*Open(kStream + "?tail=2&taskName=workerpool0-0"), "event: end");
  EXPECT_EQ(tail.find("line 7."), std::string::npos);
  EXPECT_THAT(tail, HasSubstr("line 8."));
  const auto other = ReadUntil(*Open(kStream + "?taskName=workerpool1-0"), "event: end");
  EXPECT_THAT(other, HasSubstr("other"));
  EXPECT_EQ(other.find("line"), std::string::npos);

  TestClient client(server_->address());
  EXPECT_EQ(client.Call("GET", kStream + "?tail=x").status, 400);
  EXPECT_EQ(client.Call("GET", kStream + "?nope=1").status, 400);
  EXPECT_EQ(client.Call("GET", kStream + "?lastEventId=nope").status, 400);
  EXPECT_EQ(client.Call("GET", "/muster/v1/projects/p/logs:stream").status, 400);
  EXPECT_EQ(client.Call("GET", "/muster/v1/projects/p/locations/l/customJobs/1/logs:stream").status,
            404);
}

TEST_F(LogStreamTest, ATaskThatTheJobLacksIsAnError) {
  EndJob(4);
  TestClient client(server_->address());
  const std::string kExpected =
      "no replica worker-0; there are: service, workerpool0-0, workerpool1-0, workerpool3-0";
  const auto stream = client.Call("GET", kStream + "?taskName=worker-0");
  EXPECT_EQ(stream.status, 400);
  EXPECT_THAT(stream.body, HasSubstr(kExpected));
  const auto with_tail = client.Call("GET", kStream + "?tail=3&taskName=worker-0");
  EXPECT_EQ(with_tail.status, 400);
  const std::string kList = std::string("/muster/v1/") + kTestJob + "/logs";
  const auto list = client.Call("GET", kList + "?taskName=worker-0");
  EXPECT_EQ(list.status, 400);
  EXPECT_THAT(list.body, HasSubstr(kExpected));
  // One that has no log, since it never started, and the service itself.
  for (const char* task : {"workerpool3-0", "service"}) {
    EXPECT_EQ(client.Call("GET", kList + "?taskName=" + task).status, 200) << task;
    EXPECT_THAT(ReadUntil(*Open(kStream + "?taskName=" + task), "event: end"),
                HasSubstr("event: end"));
  }
}

TEST_F(LogStreamTest, AnOlderClientGetsAPlainStream) {
  logs_.Write("workerpool0-0/0", 1, "hello");
  EndJob(4);
  TestClient client(server_->address());
  ASSERT_TRUE(client.Send("GET " + kStream + " HTTP/1.0\r\n\r\n"));
  TestResponse response;
  ASSERT_TRUE(client.ReceiveHeader(response));
  EXPECT_FALSE(response.headers.contains("transfer-encoding"));
  while (client.ReadSome()) {
  }
  EXPECT_THAT(client.unread(), HasSubstr("hello"));
  EXPECT_TRUE(client.unread().ends_with("\"JOB_STATE_SUCCEEDED\"}\n\n"));
}

TEST_F(LogStreamTest, AQuietJobIsKeptAlive) {
  server_.reset();
  Start(
      {.log_poll = std::chrono::milliseconds(5), .log_keep_alive = std::chrono::milliseconds(20)});
  const auto client = Open(kStream);
  EXPECT_EQ(client->ReceiveChunk(), ": keep-alive\n\n");
  EXPECT_EQ(client->ReceiveChunk(), ": keep-alive\n\n");
}

TEST_F(LogStreamTest, ADeletedJobEndsTheStreamWithAnError) {
  const auto client = Open(kStream);
  control_.DropLogs(kTestJob);
  EXPECT_THAT(ReadUntil(*client, "event: error"), HasSubstr("\"status\":\"NOT_FOUND\""));
}

TEST_F(LogStreamTest, ShutdownEndsReaders) {
  logs_.Write("workerpool0-0/0", 1, "hello");
  const auto client = Open(kStream);
  ReadUntil(*client, "hello");
  const auto start = std::chrono::steady_clock::now();
  server_->Shutdown();
  EXPECT_TRUE(client->ServerCloses());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
}

TEST_F(LogStreamTest, ManyIdleReadersLeaveRoomForCalls) {
  std::vector<std::unique_ptr<TestClient>> readers;
  for (int i = 0; i < 300; ++i) readers.push_back(Open(kStream));
  EXPECT_EQ(TestClient(server_->address()).Call("GET", "/healthz").body, "ok");
  EXPECT_THAT(TestClient(server_->address()).Call("GET", "/metrics").body,
              HasSubstr("muster_log_readers 300"));
  logs_.Write("workerpool0-0/0", 1, "for all");
  for (auto& reader : readers) EXPECT_THAT(ReadUntil(*reader, "for all"), HasSubstr("for all"));
  readers.clear();
  // Readers that left are noticed though nothing is written.
  const auto deadline = std::chrono::steady_clock::now() + kTestTimeout;
  std::string metrics;
  do {
    metrics = TestClient(server_->address()).Call("GET", "/metrics").body;
  } while (metrics.find("muster_log_readers 0") == std::string::npos &&
           std::chrono::steady_clock::now() < deadline);
  EXPECT_THAT(metrics, HasSubstr("muster_log_readers 0"));
}

TEST_F(LogStreamTest, ASlowReaderGetsEverything) {
  constexpr int kLines = 20'000;
  const std::string filler(500, 'x');
  for (int i = 0; i < kLines; ++i) {
    logs_.Write("workerpool0-0/0", i + 1, fmt::format("line {} {}", i, filler));
  }
  EndJob(4);
  const auto client = Open(kStream);
  // The server has written what the sockets hold and waits; other calls are served meanwhile.
  EXPECT_EQ(TestClient(server_->address()).Call("GET", "/healthz").body, "ok");
  int next = 0;
  std::string text;
  while (true) {
    const std::string chunk = client->ReceiveChunk();
    if (chunk.empty()) break;
    ASSERT_LT(chunk.size(), 2u << 20) << "a page is bounded";
    text = chunk;
    size_t at = 0;
    while ((at = text.find("line ", at)) != std::string::npos) {
      ASSERT_EQ(std::stoi(text.substr(at + 5)), next++);
      ++at;
    }
  }
  EXPECT_EQ(next, kLines);
  EXPECT_THAT(text, HasSubstr("event: end"));
}

}  // namespace
}  // namespace muster::server
