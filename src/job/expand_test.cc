#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include <map>

#include "job/environment.h"

namespace muster::job {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(ExpandTest, FollowsKubernetes) {
  const EnvironmentList environment = {
      {"A", "1"}, {"B", "$(A)"}, {"DIR", "/gcs/b/out/"}, {"EMPTY", ""}, {"odd name", "x"}};
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {"plain", "plain"},
      {"$(A)", "1"},
      {"--dir=$(DIR)model", "--dir=/gcs/b/out/model"},
      {"$(A)$(A)-$(EMPTY)-", "11--"},
      {"$(B)", "$(A)"},        // once, not recursively
      {"$(NONE)", "$(NONE)"},  // unknown
      {"$(odd name)", "x"},    // any name
      {"$()", "$()"},
      {"$$(A)", "$(A)"},  // escaped
      {"$$$(A)", "$1"},   // escaped $, then a reference
      {"$$$$(A)", "$$(A)"},
      {"$$", "$"},
      {"a$$b", "a$b"},
      {"$", "$"},
      {"a$", "a$"},
      {"$A", "$A"},  // the shell's way is the shell's
      {"${A}", "${A}"},
      {"$(A", "$(A"},          // never closed
      {"$(A$(A)", "$(A$(A)"},  // one reference, to "A$(A"
      {"$(NONE)$(A)", "$(NONE)1"},
      {"$ (A)", "$ (A)"},
      {"ä$(A)ß", "ä1ß"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(Expand(text, environment), expected) << text;
  }
}

TEST(ExpandTest, LastOfANameCounts) { EXPECT_EQ(Expand("$(A)", {{"A", "1"}, {"A", "2"}}), "2"); }

TEST(MergeEnvironmentTest, UsersVariablesSeeWhatStandsBeforeThem) {
  const EnvironmentList merged =
      MergeEnvironment({{"AIP_MODEL_DIR", "/gcs/b/model/"}, {"LITERAL", "$(AIP_MODEL_DIR)"}},
                       {{"EARLY", "$(LATE)"},
                        {"LATE", "late"},
                        {"MODEL", "$(AIP_MODEL_DIR)x"},
                        {"AIP_MODEL_DIR", "$(AIP_MODEL_DIR)mine"},
                        {"AGAIN", "$(AIP_MODEL_DIR) $(MODEL) $(LITERAL)"}});
  EXPECT_THAT(
      merged,
      ElementsAre(Pair("AIP_MODEL_DIR", "/gcs/b/model/mine"), Pair("LITERAL", "$(AIP_MODEL_DIR)"),
                  Pair("EARLY", "$(LATE)"), Pair("LATE", "late"), Pair("MODEL", "/gcs/b/model/x"),
                  Pair("AGAIN", "/gcs/b/model/mine /gcs/b/model/x $(AIP_MODEL_DIR)")));
}

TEST(MergeEnvironmentTest, DoublingVariablesCannotEatTheMemory) {
  EnvironmentList user = {{"V0", std::string(1000, 'x')}};
  for (int i = 1; i < 100; ++i) {
    const std::string last = "$(V" + std::to_string(i - 1) + ")";
    user.emplace_back("V" + std::to_string(i), last + last);
  }
  const EnvironmentList merged = MergeEnvironment({}, user);
  size_t bytes = 0;
  for (const auto& [name, value] : merged) {
    EXPECT_LE(value.size(), kExpandedBytesMax + 32) << name;
    bytes += value.size();
  }
  EXPECT_LE(bytes, kExpandedBytesTotalMax + 100'000);

  const std::vector<std::string> args(25'000, "$(V7)");
  size_t args_bytes = 0;
  for (const std::string& arg : ExpandAll(args, merged)) args_bytes += arg.size();
  EXPECT_LE(args_bytes, kExpandedBytesTotalMax + args.size() * 5);
}

// A text made of pieces whose meaning is known.
RC_GTEST_PROP(ExpandProperty, PiecesExpandEachForItself, ()) {
  const EnvironmentList environment = {{"A", "one"}, {"LONG_NAME", "$(A)"}, {"E", ""}};
  const auto literal =
      *rc::gen::container<std::string>(rc::gen::distinctFrom(rc::gen::arbitrary<char>(), '$'));
  const std::pair<std::string, std::string> pieces[] = {
      {literal, literal}, {"$(A)", "one"}, {"$(LONG_NAME)", "$(A)"}, {"$(E)", ""},
      {"$(X)", "$(X)"},   {"$$", "$"},     {"$$(A)", "$(A)"},        {"$x", "$x"}};
  std::string text, expected;
  for (const size_t i :
       *rc::gen::container<std::vector<size_t>>(rc::gen::inRange<size_t>(0, std::size(pieces)))) {
    text += pieces[i].first;
    expected += pieces[i].second;
  }
  RC_ASSERT(Expand(text, environment) == expected);
}

RC_GTEST_PROP(ExpandProperty, EscapedTextComesBackUnchanged, (const std::string& text)) {
  std::string escaped;
  for (const char c : text) escaped += c == '$' ? "$$" : std::string(1, c);
  RC_ASSERT(Expand(escaped, {{"A", "1"}, {"", "empty"}}) == text);
}

RC_GTEST_PROP(ExpandProperty, AnyTextEndsAndIsStableWithoutVariablesOrEscapes,
              (const std::string& text)) {
  RC_PRE(text.find("$$") == std::string::npos);
  RC_ASSERT(Expand(text, {}) == text);
}

RC_GTEST_PROP(MergeEnvironmentProperty, KeepsEachNameOnceWithItsLastValue, ()) {
  const auto lists = rc::gen::container<EnvironmentList>(rc::gen::pair(
      rc::gen::element<std::string>("A", "B", "C", "D"), rc::gen::element<std::string>("1", "2")));
  const EnvironmentList base = *lists, user = *lists;
  std::map<std::string, std::string> expected;
  for (const auto& [name, value] : base) expected[name] = value;
  for (const auto& [name, value] : user) expected[name] = value;
  const EnvironmentList merged = MergeEnvironment(base, user);
  RC_ASSERT(merged.size() == expected.size());
  for (const auto& [name, value] : merged) RC_ASSERT(expected.at(name) == value);
}

}  // namespace
}  // namespace muster::job
