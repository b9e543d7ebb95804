#include "server/transcode/path_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "server/transcode/percent.h"

namespace muster::server {
namespace {

using Bindings = std::vector<PathTemplate::Binding>;

std::optional<Bindings> Match(std::string_view pattern, std::string_view path) {
  const auto parsed = PathTemplate::Parse(pattern);
  EXPECT_TRUE(parsed.has_value()) << pattern;
  const auto split = SplitUrlPath(path);
  if (!parsed || !split) return std::nullopt;
  return parsed->Match(*split);
}

TEST(PathTemplate, BindsAVariableOfSeveralSegments) {
  EXPECT_EQ(Match("/v1/{name=projects/*/locations/*/customJobs/*}",
                  "/v1/projects/p/locations/l/customJobs/7"),
            (Bindings{{"name", "projects/p/locations/l/customJobs/7"}}));
  EXPECT_EQ(Match("/v1/{parent=projects/*/locations/*}/customJobs",
                  "/v1/projects/p/locations/l/customJobs"),
            (Bindings{{"parent", "projects/p/locations/l"}}));
}

TEST(PathTemplate, AVerbIsPartOfTheTemplate) {
  const auto* pattern = "/v1/{name=projects/*/customJobs/*}:cancel";
  EXPECT_EQ(Match(pattern, "/v1/projects/p/customJobs/7:cancel"),
            (Bindings{{"name", "projects/p/customJobs/7"}}));
  EXPECT_FALSE(Match(pattern, "/v1/projects/p/customJobs/7"));
  EXPECT_FALSE(Match(pattern, "/v1/projects/p/customJobs/7:cancelled"));
  EXPECT_FALSE(Match(pattern, "/v1/projects/p/customJobs/:cancel"));
}

TEST(PathTemplate, DoubleStarTakesAnyNumberOfSegments) {
  EXPECT_EQ(Match("/v1/{name=operations/**}", "/v1/operations/a/b"),
            (Bindings{{"name", "operations/a/b"}}));
  EXPECT_EQ(Match("/v1/{name=operations/**}", "/v1/operations"),
            (Bindings{{"name", "operations"}}));
  const auto* middle = "/ui/{name=projects/*/**/operations/*}";
  EXPECT_EQ(Match(middle, "/ui/projects/p/locations/l/customJobs/1/operations/2"),
            (Bindings{{"name", "projects/p/locations/l/customJobs/1/operations/2"}}));
  EXPECT_EQ(Match(middle, "/ui/projects/p/operations/2"),
            (Bindings{{"name", "projects/p/operations/2"}}));
  EXPECT_FALSE(Match(middle, "/ui/projects/p/locations/l/customJobs/1"));
}

TEST(PathTemplate, DecodesEscapes) {
  EXPECT_EQ(Match("/v1/{name=models/*}", "/v1/models/12%401"), (Bindings{{"name", "models/12@1"}}));
  EXPECT_EQ(Match("/v1/{id}/x", "/v1/a%2Fb/x"), (Bindings{{"id", "a/b"}}));
  EXPECT_EQ(Match("/v1/{name=a/*}", "/v1/a/b%2fc"), (Bindings{{"name", "a/b%2fc"}}))
      << "a slash within a segment of a longer value stays escaped";
  EXPECT_EQ(Match("/v1/custom", "/v1/c%75stom"), Bindings{});
  EXPECT_FALSE(Match("/v1/{id}", "/v1/%4"));
  EXPECT_FALSE(Match("/v1/{id}", "/v1/%zz"));
}

TEST(PathTemplate, OtherPathsDoNotMatch) {
  EXPECT_FALSE(Match("/v1/{id}", "/v1"));
  EXPECT_FALSE(Match("/v1/{id}", "/v1/"));
  EXPECT_FALSE(Match("/v1/{id}", "/v1//a"));
  EXPECT_FALSE(Match("/v1/{id}", "/v1/a/"));
  EXPECT_FALSE(Match("/v1/{id}", "v1/a"));
  EXPECT_FALSE(Match("/v1/{id}", ""));
}

TEST(PathTemplate, RefusesMalformedTemplates) {
  for (const auto* text : {"", "v1", "/", "/a//b", "/{", "/{a", "/{a=", "/{a=}", "/{=b}",
                           "/{a={b}}", "/**/**", "/a:", "/a:b/c", "/a:{b}", "/a}", "/a=b"}) {
    const auto parsed = PathTemplate::Parse(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
    EXPECT_THAT(parsed.error().message, testing::HasSubstr("path template"));
  }
}

std::string Encode(const std::string& text) {
  std::string out;
  for (const char c : text) out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

RC_GTEST_PROP(PathTemplate, AnEncodedSegmentComesBackAsItWas, (std::string text)) {
  RC_PRE(!text.empty());
  const auto path = "/v1/" + Encode(text) + "/end";
  const auto bindings = Match("/v1/{id}/end", path);
  RC_ASSERT(bindings == (Bindings{{"id", text}}));
}

RC_GTEST_PROP(PathTemplate, AnyPathIsMatchedOrNot, (std::string path)) {
  const auto pattern = PathTemplate::Parse("/{a=*/**}/c:d");
  const auto whole = "/" + path + "/c:d";
  const auto split = SplitUrlPath(whole);
  if (split) {
    for (const auto& part : split->segments) RC_ASSERT(!part.empty());
    const auto bindings = pattern->Match(*split);
    if (bindings) RC_ASSERT(bindings->size() == 1u);
  }
}

TEST(PercentDecode, FormsTurnPlusIntoSpace) {
  EXPECT_EQ(PercentDecode("a+b%2B", PercentRule::kForm), "a b+");
  EXPECT_EQ(PercentDecode("a+b", PercentRule::kAll), "a+b");
  EXPECT_FALSE(PercentDecode("%", PercentRule::kAll));
}

}  // namespace
}  // namespace muster::server
