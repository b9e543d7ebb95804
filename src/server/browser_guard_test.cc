#include "server/browser_guard.h"

#include <gtest/gtest.h>

#include "server/resource_name.h"

namespace muster::server {
namespace {

constexpr const char* kBrowser = "Mozilla/5.0 (X11; Linux x86_64)";

bool Allowed(const BrowserHeaders& headers, const std::vector<std::string>& names = {}) {
  return CheckBrowser(headers, names).has_value();
}

TEST(CheckBrowser, ProgramsMayUseAnyName) {
  EXPECT_TRUE(Allowed({.host = "muster.lan:8080",
                       .origin = "",
                       .sec_fetch_site = "",
                       .user_agent = "python-requests/2"}));
  EXPECT_TRUE(Allowed({}));
}

TEST(CheckBrowser, OwnPagesMay) {
  for (const auto* host : {"127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080"}) {
    const auto origin = std::string("http://") + host;
    EXPECT_TRUE(Allowed({host, origin, "same-origin", kBrowser})) << host;
    EXPECT_TRUE(Allowed({host, "", "none", kBrowser})) << "typed into the address bar";
  }
}

TEST(CheckBrowser, OtherSitesPagesMayNot) {
  EXPECT_FALSE(Allowed({"127.0.0.1:8080", "http://evil.example", "", "curl"}));
  EXPECT_FALSE(Allowed({"127.0.0.1:8080", "null", "", kBrowser}));
  EXPECT_FALSE(Allowed({"127.0.0.1:8080", "http://127.0.0.1:9090", "same-site", kBrowser}));
  EXPECT_FALSE(Allowed({"127.0.0.1:8080", "", "cross-site", kBrowser}));
}

TEST(CheckBrowser, ANameThatPointsHereIsNotEnough) {
  EXPECT_FALSE(Allowed({"evil.example:8080", "http://evil.example:8080", "same-origin", kBrowser}));
  EXPECT_FALSE(Allowed({"evil.example:8080", "", "", kBrowser}));
  EXPECT_FALSE(Allowed({"localhost.evil.example:8080", "", "", kBrowser}));
  EXPECT_TRUE(Allowed({"muster.lan:8080", "http://muster.lan:8080", "same-origin", kBrowser},
                      {"muster.lan"}));
}

TEST(CheckName, NamesTheFieldAndThePattern) {
  EXPECT_TRUE(CheckName("name", "projects/p/locations/l/customJobs/7", kCustomJobPattern));
  EXPECT_TRUE(CheckName("parent", "projects/google.com:p/locations/us-central1", kLocationPattern));
  for (const std::string name :
       {"", "projects/p", "projects//locations/l", "projects/p/locations/..", "a/b/c/d",
        "projects/p/locations/l/", "projects/p/locations/l/x", "projects/p/locations/a b",
        "projects/p/locations/\xff"}) {
    const auto status = CheckName("parent", name, kLocationPattern);
    ASSERT_FALSE(status.has_value()) << name;
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
    EXPECT_NE(status.error().message.find("'parent'"), std::string::npos);
    EXPECT_NE(status.error().message.find("projects/*/locations/*"), std::string::npos);
  }
  EXPECT_FALSE(
      CheckName("parent", "projects/" + std::string(2000, 'a') + "/locations/l", kLocationPattern));
}

}  // namespace
}  // namespace muster::server
