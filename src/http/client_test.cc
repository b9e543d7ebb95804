#include "http/client.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/fd.h"
#include "base/file.h"

namespace muster::http {
namespace {

using namespace std::chrono_literals;

// Plays a script: one entry a connection, each a list of answers, one a request. After its last
// answer a connection is closed, unless the answer is kHang.
class ScriptedServer {
 public:
  using Script = std::vector<std::vector<std::string>>;
  static constexpr const char* kHang = "hang";

  explicit ScriptedServer(Script script) : script_(std::move(script)) {
    listener_.Reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    MUSTER_CHECK(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    MUSTER_CHECK(::listen(listener_.get(), 8) == 0);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    int ends[2];
    MUSTER_CHECK(::pipe(ends) == 0);
    quit_read_.Reset(ends[0]);
    quit_write_.Reset(ends[1]);
    thread_ = std::thread([this] { Serve(); });
  }
  ~ScriptedServer() { Join(); }

  // All connections of the script are over, or given up.
  const std::vector<std::string>& Join() {
    quit_write_.Reset();
    if (thread_.joinable()) thread_.join();
    return requests_;
  }
  Endpoint endpoint() const { return {"127.0.0.1", std::to_string(port_)}; }

 private:
  bool WaitReadable(int fd) {
    pollfd fds[2] = {{fd, POLLIN, 0}, {quit_read_.get(), POLLIN, 0}};
    return ::poll(fds, 2, 10'000) > 0 && fds[0].revents != 0;
  }

  void Serve() {
    for (const auto& answers : script_) {
      if (!WaitReadable(listener_.get())) return;
      UniqueFd connection(::accept(listener_.get(), nullptr, nullptr));
      for (const std::string& answer : answers) {
        std::string request;
        if (!ReadRequest(connection.get(), request)) break;
        requests_.push_back(request);
        if (answer == kHang) {
          pollfd quit = {quit_read_.get(), POLLIN, 0};
          ::poll(&quit, 1, 10'000);
          break;
        }
        (void)!::send(connection.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      }
    }
  }

  bool ReadRequest(int fd, std::string& request) {
    char buffer[4096];
    for (;;) {
      const size_t head = request.find("\r\n\r\n");
      if (head != std::string::npos) {
        const size_t length_at = request.find("Content-Length: ");
        const size_t length =
            length_at == std::string::npos ? 0 : std::stoul(request.substr(length_at + 16));
        if (request.size() >= head + 4 + length) return true;
      }
      if (!WaitReadable(fd)) return false;
      const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
      if (got <= 0) return false;
      request.append(buffer, size_t(got));
    }
  }

  Script script_;
  UniqueFd listener_, quit_read_, quit_write_;
  int port_ = 0;
  std::vector<std::string> requests_;
  std::thread thread_;
};

std::string Answer(const std::string& body, const std::string& status = "200 OK") {
  return fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\n\r\n{}", status, body.size(), body);
}

std::string Chunk(const std::string& text) {
  return fmt::format("{:x}\r\n{}\r\n", text.size(), text);
}

const std::string kStreamHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

TEST(Client, KeepsTheConnectionAndSendsJson) {
  ScriptedServer server({{Answer("{\"a\":1}"), Answer("second")}});
  Client client(server.endpoint());
  const auto first = client.Call({.method = "POST", .target = "/v1/x", .body = "{}"}, 5s);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->status, 200);
  EXPECT_EQ(first->body, "{\"a\":1}");
  EXPECT_EQ(client.Call({.target = "/v1/y?z=%20"}, 5s)->body, "second");
  const auto& requests = server.Join();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_THAT(requests[0], testing::StartsWith("POST /v1/x HTTP/1.1\r\n"));
  EXPECT_THAT(requests[0], testing::HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(requests[0], testing::HasSubstr("Host: 127.0.0.1:" + server.endpoint().port));
  EXPECT_THAT(requests[1], testing::StartsWith("GET /v1/y?z=%20 HTTP/1.1\r\n"));
}

TEST(Client, ConnectsAnewWhenAKeptConnectionWasClosed) {
  ScriptedServer server({{Answer("one")}, {Answer("two")}, {Answer("three")}});
  Client client(server.endpoint());
  for (const char* body : {"one", "two", "three"}) {
    const auto response = client.Call({.target = "/"}, 5s);
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->body, body);
  }
}

TEST(Client, NothingListensThere) {
  std::string port;
  {
    ScriptedServer gone({});
    port = gone.endpoint().port;
  }
  Client client({"127.0.0.1", port});
  const auto response = client.Call({.target = "/"}, 5s);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kUnavailable);
  EXPECT_THAT(response.error().message, testing::HasSubstr("127.0.0.1:" + port));
}

TEST(Client, DeadlineEndsAHangingCallAndTheClientGoesOn) {
  ScriptedServer server({{ScriptedServer::kHang}});
  Client client(server.endpoint());
  const auto response = client.Call({.target = "/"}, 50ms);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kDeadlineExceeded);
}

TEST(Client, BrokenAnswersAreUnavailable) {
  for (const char* answer : {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
                             "SSH-2.0-x\r\n\r\n", "HTTP/1.1 200", ""}) {
    ScriptedServer server({{answer}});
    Client client(server.endpoint());
    const auto response = client.Call({.target = "/"}, 5s);
    ASSERT_FALSE(response) << answer;
    EXPECT_EQ(response.error().code, Code::kUnavailable) << answer;
  }
}

TEST(Client, AnswersAreBounded) {
  ScriptedServer server({{"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"}});
  Client client(server.endpoint());
  const auto response = client.Call({.target = "/"}, 5s);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kResourceExhausted);
}

TEST(Client, StreamsEventsUntilTheEnd) {
  ScriptedServer server(
      {{kStreamHead + Chunk("id: 1\ndata: a\n\nid: 2\nda") + Chunk("ta: b\n\n: alive\n\n") +
        Chunk("event: end\ndata: {}\n\n") + "0\r\n\r\n"}});
  Client client(server.endpoint());
  std::vector<std::string> seen;
  const auto response = client.Stream(
      {.target = "/logs", .last_event_id = "0"}, 5s, [&](const Client::ServerEvent& event) {
        seen.push_back(event.id + "/" + event.event + "/" + event.data);
        return true;
      });
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 200);
  EXPECT_THAT(seen, testing::ElementsAre("1//a", "2//b", "2/end/{}"));
  EXPECT_THAT(server.Join()[0], testing::HasSubstr("Last-Event-ID: 0\r\n"));
  EXPECT_THAT(server.Join()[0], testing::HasSubstr("Accept: text/event-stream\r\n"));
}

TEST(Client, StreamThatBreaksOffIsUnavailable) {
  ScriptedServer server({{kStreamHead + Chunk("data: a\n\n")}});
  Client client(server.endpoint());
  int count = 0;
  const auto response = client.Stream({.target = "/"}, 5s, [&](const Client::ServerEvent&) {
    ++count;
    return true;
  });
  EXPECT_EQ(count, 1);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kUnavailable);
}

TEST(Client, StreamCanBeLeftAndTheClientUsedAgain) {
  ScriptedServer server({{kStreamHead + Chunk("data: a\n\ndata: b\n\n")}, {Answer("next")}});
  Client client(server.endpoint());
  int count = 0;
  const auto response = client.Stream({.target = "/"}, 5s, [&](const Client::ServerEvent&) {
    ++count;
    return false;
  });
  EXPECT_TRUE(response);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(client.Call({.target = "/"}, 5s)->body, "next");
}

TEST(Client, SilentStreamMissesItsDeadline) {
  ScriptedServer server({{kStreamHead, ScriptedServer::kHang}});
  Client client(server.endpoint());
  const auto response =
      client.Stream({.target = "/"}, 80ms, [](const Client::ServerEvent&) { return true; });
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kDeadlineExceeded);
}

TEST(Client, StreamHandsBackOtherAnswers) {
  ScriptedServer server({{Answer(
      R"({"error":{"code":404,"message":"no job 7","status":"NOT_FOUND"}})", "404 Not Found")}});
  Client client(server.endpoint());
  const auto response =
      client.Stream({.target = "/"}, 5s, [](const Client::ServerEvent&) { return true; });
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 404);
  EXPECT_EQ(ErrorOfResponse(*response), (Error{Code::kNotFound, "no job 7"}));
}

TEST(Endpoint, Parses) {
  for (const char* text : {"127.0.0.1:8080", "http://127.0.0.1:8080", "http://127.0.0.1:8080/"}) {
    const auto endpoint = ParseEndpoint(text);
    ASSERT_TRUE(endpoint) << text;
    EXPECT_EQ(endpoint->host, "127.0.0.1");
    EXPECT_EQ(endpoint->port, "8080");
  }
  EXPECT_EQ(ParseEndpoint("[::1]:80")->host, "::1");
  EXPECT_EQ(ParseEndpoint("localhost:80")->host, "localhost");
}

TEST(Endpoint, RefusesWhatIsNone) {
  for (const char* text :
       {"", ":", "localhost", ":80", "a:0", "a:65536", "a:8x", "a:+8", "::1:80", "[::1]", "[]:80",
        "https://a:80", "a/b:80", "http://", "a:", "[", "]:1"}) {
    const auto endpoint = ParseEndpoint(text);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_EQ(endpoint.error().code, Code::kInvalidArgument) << text;
  }
}

TEST(Endpoint, ReadsTheServersFile) {
  const auto path =
      (std::filesystem::temp_directory_path() / ("musterd-" + RandomHex(8) + ".json")).string();
  EXPECT_EQ(ReadEndpointFile(path).error().code, Code::kNotFound);
  ASSERT_TRUE(WriteFileAtomic(path, R"({"address":"0.0.0.0:81","pid":1})"));
  EXPECT_EQ(ReadEndpointFile(path)->host, "127.0.0.1");
  ASSERT_TRUE(WriteFileAtomic(path, R"({"address":)"));
  EXPECT_EQ(ReadEndpointFile(path).error().code, Code::kDataLoss);
  std::filesystem::remove(path);
}

TEST(ErrorOfResponse, FallsBackToTheStatus) {
  EXPECT_EQ(ErrorOfResponse({503, ""}).code, Code::kUnavailable);
  EXPECT_EQ(ErrorOfResponse({404, "page not here"}),
            (Error{Code::kNotFound, "the server answered with HTTP status 404: page not here"}));
  EXPECT_EQ(ErrorOfResponse({400, R"({"error":"x"})"}).code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace muster::http
