#include "cli/dict_arg.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>

namespace muster::cli {
namespace {

using Items = std::vector<std::string>;

TEST(ListFlag, SplitsAtCommas) {
  EXPECT_EQ(*ParseListFlag("--epochs=3,--lr=0.1"), (Items{"--epochs=3", "--lr=0.1"}));
  EXPECT_EQ(*ParseListFlag(""), Items{});
  EXPECT_EQ(*ParseListFlag("a,"), Items{"a"});
  EXPECT_EQ(*ParseListFlag(",a"), (Items{"", "a"}));
  EXPECT_EQ(*ParseListFlag("a,,b"), (Items{"a", "", "b"}));
}

TEST(ListFlag, TakesAnotherDelimiter) {
  EXPECT_EQ(*ParseListFlag("^;^--a=1,2;--b=3"), (Items{"--a=1,2", "--b=3"}));
  EXPECT_EQ(*ParseListFlag("^::^a::b:c"), (Items{"a", "b:c"}));
  EXPECT_EQ(*ParseListFlag("^:^"), Items{});
}

TEST(ListFlag, CaretWithoutPartnerIsText) { EXPECT_EQ(*ParseListFlag("^a,b"), (Items{"^a", "b"})); }

TEST(ListFlag, RefusesAnEmptyDelimiter) {
  EXPECT_EQ(ParseListFlag("^^a").error().code, Code::kInvalidArgument);
}

TEST(DictFlag, SplitsItemsAtTheirFirstEquals) {
  const Dict dict = *ParseDictFlag("a=1,b=x=y,c=", {});
  EXPECT_EQ(dict, (Dict{{"a", "1"}, {"b", "x=y"}, {"c", ""}}));
}

TEST(DictFlag, NamesWhatIsWrong) {
  constexpr auto kKeys = std::to_array<std::string_view>({"machine-type", "replica-count"});
  EXPECT_EQ(ParseDictFlag("machine=1", kKeys).error().message,
            "valid keys are [machine-type, replica-count]; received: machine");
  EXPECT_TRUE(ParseDictFlag("machine-type", kKeys)
                  .error()
                  .message.starts_with("Bad syntax for dict arg: [machine-type]."));
  EXPECT_EQ(ParseDictFlag("a=1,a=2", {}).error().message,
            "\"a\" cannot be specified multiple times");
}

RC_GTEST_PROP(ListFlag, AnyItemsSurviveWithADelimiterThatTheyLack, ()) {
  const auto piece = rc::gen::element<std::string>("a", ",", "^", "=", "--", "\n", " ", ":");
  const auto item = rc::gen::map(rc::gen::container<Items>(piece), [](const Items& pieces) {
    return fmt::format("{}", fmt::join(pieces, ""));
  });
  Items items = *rc::gen::container<Items>(item);
  // A trailing empty item cannot be told from a trailing delimiter.
  if (!items.empty() && items.back().empty()) items.pop_back();
  if (!items.empty() && items.back().empty()) items.back() = "last";
  RC_ASSERT(*ParseListFlag("^;;^" + fmt::format("{}", fmt::join(items, ";;"))) == items);
}

TEST(SplitNonEmpty, DropsEmptyParts) {
  EXPECT_EQ(SplitNonEmpty("/a//b/", '/'), (Items{"a", "b"}));
  EXPECT_EQ(SplitNonEmpty("", '/'), Items{});
}

}  // namespace
}  // namespace muster::cli
