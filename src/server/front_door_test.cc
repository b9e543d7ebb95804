#include "server/front_door.h"

#include <gtest/gtest.h>

#include "server/fake_job_control.h"
#include "server/server.h"
#include "server/test_client.h"

namespace muster::server {
namespace {

TEST(ProtocolOf, DecidesAsSoonAsItCan) {
  EXPECT_EQ(ProtocolOf(""), Protocol::kUndecided);
  EXPECT_EQ(ProtocolOf("G"), Protocol::kHttp);
  EXPECT_EQ(ProtocolOf("P"), Protocol::kUndecided);
  EXPECT_EQ(ProtocolOf("PR"), Protocol::kUndecided);
  EXPECT_EQ(ProtocolOf("PO"), Protocol::kHttp);
  EXPECT_EQ(ProtocolOf("PROPFIND"), Protocol::kHttp);
  EXPECT_EQ(ProtocolOf("PRI * HTTP/"), Protocol::kUndecided);
  EXPECT_EQ(ProtocolOf("PRI * HTTP/1"), Protocol::kHttp);
  EXPECT_EQ(ProtocolOf("PRI * HTTP/2.0\r\n"), Protocol::kGrpc);
  EXPECT_EQ(ProtocolOf("\x16"), Protocol::kTls);
  EXPECT_EQ(ProtocolOf(std::string_view("\0", 1)), Protocol::kHttp);
}

class FrontDoorTest : public testing::Test {
 protected:
  void Start(Server::Options options) {
    auto started = Server::Start(std::move(options), AllMethods(control_), control_);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    server_ = std::move(*started);
  }
  FakeJobControl control_;
  std::unique_ptr<Server> server_;
};

TEST_F(FrontDoorTest, BadAddressesAreNamed) {
  for (const std::string listen : {"", "8080", ":8080", "127.0.0.1:", "127.0.0.1:x", "::1:80",
                                   "127.0.0.1:70000", "no.such.host.invalid:0"}) {
    const auto server = Server::Start({.listen = listen}, AllMethods(control_), control_);
    ASSERT_FALSE(server.has_value()) << listen;
    EXPECT_EQ(server.error().code, Code::kInvalidArgument) << listen;
    EXPECT_NE(server.error().message.find(listen), std::string::npos);
  }
}

TEST_F(FrontDoorTest, ATakenPortIsAnError) {
  Start({});
  const auto second = Server::Start({.listen = server_->address()}, AllMethods(control_), control_);
  ASSERT_FALSE(second.has_value());
  EXPECT_NE(second.error().message.find(server_->address()), std::string::npos);
}

TEST_F(FrontDoorTest, SilentConnectionsAreClosed) {
  Start({.decide_timeout = std::chrono::milliseconds(50)});
  TestClient silent(server_->address());
  TestClient hesitant(server_->address());
  ASSERT_TRUE(hesitant.Send("PRI * HT"));
  EXPECT_TRUE(silent.ServerCloses());
  EXPECT_TRUE(hesitant.ServerCloses());
}

TEST_F(FrontDoorTest, TlsIsClosedUntilItIsConfigured) {
  Start({});
  TestClient tls(server_->address());
  ASSERT_TRUE(tls.Send("\x16\x03\x01\x02"));
  EXPECT_TRUE(tls.ServerCloses());
}

TEST_F(FrontDoorTest, ManySilentConnectionsDoNotKeepOthersOut) {
  Start({.decide_timeout = std::chrono::minutes(10), .undecided_max = 100});
  std::vector<std::unique_ptr<TestClient>> silent;
  for (int i = 0; i < 500; ++i) {
    silent.push_back(std::make_unique<TestClient>(server_->address()));
    ASSERT_TRUE(silent.back()->connected());
  }
  EXPECT_EQ(TestClient(server_->address()).Call("GET", "/healthz").body, "ok");
  EXPECT_TRUE(silent.front()->ServerCloses()) << "the one that has been silent longest goes";
  ASSERT_TRUE(silent.back()->Send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_EQ(silent.back()->Receive().body, "ok") << "the newest may still speak";
}

TEST_F(FrontDoorTest, ManySilentHttpConnectionsDoNotKeepOthersOut) {
  Start({});
  std::vector<std::unique_ptr<TestClient>> slow;
  for (int i = 0; i < 500; ++i) {
    slow.push_back(std::make_unique<TestClient>(server_->address()));
    ASSERT_TRUE(slow.back()->Send("GET /healthz HTTP/1.1\r\n"));
  }
  EXPECT_EQ(TestClient(server_->address()).Call("GET", "/healthz").body, "ok");
}

TEST_F(FrontDoorTest, ListensOnIpv6Too) {
  const auto server = Server::Start({.listen = "[::1]:0"}, AllMethods(control_), control_);
  if (!server) GTEST_SKIP() << "no IPv6 here: " << server.error().message;
  EXPECT_TRUE((*server)->address().starts_with("[::1]:")) << (*server)->address();
}

TEST_F(FrontDoorTest, ShutdownIsIdempotentAndClosesUndecidedConnections) {
  Start({});
  TestClient silent(server_->address());
  EXPECT_EQ(TestClient(server_->address()).Call("GET", "/healthz").body, "ok");
  server_->Shutdown();
  EXPECT_TRUE(silent.ServerCloses());
  server_->Shutdown();
}

}  // namespace
}  // namespace muster::server
