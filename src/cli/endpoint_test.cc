#include "cli/endpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/testing.h"

namespace muster::cli {
namespace {

class EndpointTest : public testing::Test {
 protected:
  std::string File() const { return (directory_.path() / "musterd.json").string(); }
  void WriteEndpointFile(const std::string& text) {
    ASSERT_TRUE(WriteFileAtomic(File(), text).has_value());
  }

  TemporaryDirectory directory_;
  Variables environment_{{"MUSTER_DATA_DIR", directory_.path().string()}};
};

TEST_F(EndpointTest, FlagWinsOverVariableOverFile) {
  WriteEndpointFile(R"({"address":"127.0.0.1:1","pid":)" + std::to_string(::getpid()) + "}");
  EXPECT_EQ(FindEndpoint(environment_, "")->endpoint.port, "1");
  EXPECT_EQ(FindEndpoint(environment_, "")->source, File());
  environment_["MUSTER_ENDPOINT"] = "http://127.0.0.1:2";
  EXPECT_EQ(FindEndpoint(environment_, "")->endpoint.port, "2");
  EXPECT_EQ(FindEndpoint(environment_, "[::1]:3")->endpoint.port, "3");
}

TEST_F(EndpointTest, WithoutMusterdSaysHowToStartOne) {
  const auto none = FindEndpoint(environment_, "");
  EXPECT_EQ(none.error().code, Code::kUnavailable);
  EXPECT_NE(none.error().message.find(File()), std::string::npos);
  EXPECT_NE(none.error().message.find("$ musterd"), std::string::npos);
}

TEST_F(EndpointTest, NoticesAMusterdThatIsGone) {
  // Process IDs end below 2^22.
  WriteEndpointFile(R"({"address":"127.0.0.1:1","pid":1073741824})");
  const auto gone = FindEndpoint(environment_, "");
  EXPECT_EQ(gone.error().code, Code::kUnavailable);
  EXPECT_NE(gone.error().message.find("1073741824"), std::string::npos);
}

TEST_F(EndpointTest, RefusesDamage) {
  for (const char* text : {"", "{}", "[]", R"({"address":7})", R"({"address":"nowhere"})"}) {
    WriteEndpointFile(text);
    EXPECT_FALSE(FindEndpoint(environment_, "").has_value()) << text;
  }
  EXPECT_EQ(FindEndpoint({}, "https://127.0.0.1:8").error().code, Code::kInvalidArgument);
  EXPECT_EQ(FindEndpoint({}, "nonsense").error().code, Code::kInvalidArgument);
}

TEST(DataDirectory, FollowsTheEnvironment) {
  EXPECT_EQ(*DataDirectory({{"MUSTER_DATA_DIR", "/m"}, {"HOME", "/h"}}), "/m");
  EXPECT_EQ(*DataDirectory({{"XDG_STATE_HOME", "/s"}, {"HOME", "/h"}}), "/s/muster");
  EXPECT_EQ(*DataDirectory({{"XDG_STATE_HOME", "relative"}, {"HOME", "/h"}}),
            "/h/.local/state/muster");
}

}  // namespace
}  // namespace muster::cli
