#include "store/filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/time.h"

namespace muster::store {
namespace {

using testing::HasSubstr;
using Comparator = FilterCondition::Comparator;
using Kind = FilterNode::Kind;

// The tree as text: (and a (or b c)), (not a), display_name={run|*}.
std::string Text(const FilterPattern& pattern) {
  std::string text;
  for (size_t i = 0; i < pattern.pieces.size(); ++i) {
    text += (i > 0 ? "|" : "") + pattern.pieces[i];
  }
  return "{" + text + "}";
}

constexpr const char* kSymbols[] = {"=", "<", "<=", ">", ">="};

std::string Text(const FilterCondition& condition) {
  const std::string symbol = kSymbols[static_cast<int>(condition.comparator)];
  const std::string number = std::to_string(condition.number);
  switch (condition.field) {
    case FilterField::kDisplayName:
      return "display_name=" + Text(condition.pattern);
    case FilterField::kName:
      return "name=" + Text(condition.pattern);
    case FilterField::kState:
      return "state=" + number;
    case FilterField::kCreateTime:
      return "create_time" + symbol + number;
    case FilterField::kUpdateTime:
      return "update_time" + symbol + number;
    case FilterField::kLabel:
      return "[" + condition.label_key + "]=" + Text(condition.pattern);
  }
  return "?";
}

std::string Text(const FilterNode& node) {
  if (node.kind == Kind::kCondition) return Text(node.condition);
  std::string text = node.kind == Kind::kAnd ? "(and" : node.kind == Kind::kOr ? "(or" : "(not";
  for (const FilterNode& child : node.children) text += " " + Text(child);
  return text + ")";
}

std::string Parse(std::string_view filter, std::string_view kind = "customJobs") {
  const auto node = ParseFilter(filter, kind);
  if (node) return Text(*node);
  EXPECT_EQ(node.error().code, Code::kInvalidArgument);
  return node.error().message;
}

TEST(FilterTest, OfficialExamples) {
  EXPECT_EQ(Parse(R"(state="JOB_STATE_SUCCEEDED" AND display_name:"my_job_*")"),
            "(and state=4 display_name={my_job_|})");
  EXPECT_EQ(Parse(R"(state!="JOB_STATE_FAILED" OR display_name="my_job")"),
            "(or (not state=5) display_name={my_job})");
  EXPECT_EQ(Parse(R"(NOT display_name="my_job")"), "(not display_name={my_job})");
  EXPECT_EQ(Parse(R"(create_time>"2021-05-18T00:00:00Z")"), "create_time>1621296000000000");
  EXPECT_EQ(Parse("labels.keyA=valueA"), "[keyA]={valueA}");
  EXPECT_EQ(Parse("labels.keyB:*"), "[keyB]={|}");
}

TEST(FilterTest, RecordedRequests) {
  EXPECT_EQ(Parse(R"(state="JOB_STATE_SUCCEEDED" AND display_name:"run*")"),
            "(and state=4 display_name={run|})");
  EXPECT_EQ(Parse("labels.k=v"), "[k]={v}");
  EXPECT_EQ(Parse("labels.n=http-proto"), "[n]={http-proto}");
  EXPECT_EQ(Parse(R"(state="PIPELINE_STATE_SUCCEEDED")", "trainingPipelines"), "state=4");
}

TEST(FilterTest, EmptyMatchesAll) {
  EXPECT_EQ(Parse(""), "(and)");
  EXPECT_EQ(Parse(" \t\n"), "(and)");
}

TEST(FilterTest, OrBindsTighterThanAnd) {
  EXPECT_EQ(Parse("name=a AND name=b OR name=c"), "(and name={a} (or name={b} name={c}))");
  EXPECT_EQ(Parse("name=a OR name=b AND name=c"), "(and (or name={a} name={b}) name={c})");
  EXPECT_EQ(Parse("name=a OR name=b OR name=c"), "(or name={a} name={b} name={c})");
  EXPECT_EQ(Parse("(name=a AND name=b) OR name=c"), "(or (and name={a} name={b}) name={c})");
}

TEST(FilterTest, SideBySideMeansAnd) {
  EXPECT_EQ(Parse("name=a name=b OR name=c AND name=d"),
            "(and name={a} (or name={b} name={c}) name={d})");
  EXPECT_EQ(Parse("name=a (name=b) -name=c"), "(and name={a} name={b} (not name={c}))");
}

TEST(FilterTest, Negation) {
  EXPECT_EQ(Parse("-name=a"), "(not name={a})");
  EXPECT_EQ(Parse("NOT (name=a OR name=b)"), "(not (or name={a} name={b}))");
  EXPECT_EQ(Parse("-(name!=a)"), "(not (not name={a}))");
  EXPECT_EQ(Parse("NOT name=a OR name=b"), "(or (not name={a}) name={b})");
  EXPECT_EQ(Parse("NOT(name=a)AND(name=b)"), "(and (not name={a}) name={b})");
  EXPECT_THAT(Parse("NOT NOT name=a"), HasSubstr("character 5: expected a field, found 'NOT'"));
}

TEST(FilterTest, FieldsInBothCases) {
  EXPECT_EQ(Parse("displayName=a"), Parse("display_name=a"));
  EXPECT_EQ(Parse("createTime<=2026-11-20T17:36:26.217+01:00"),
            "create_time<=" + std::to_string(ToMicros(*ParseRfc3339("2026-11-20T16:36:26.217Z"))));
  EXPECT_EQ(Parse("updateTime >= '2021-05-18T00:00:00Z'"), "update_time>=1621296000000000");
}

TEST(FilterTest, Times) {
  for (const char* op : {"=", "<", "<=", ">", ">="}) {
    EXPECT_EQ(Parse(std::string("create_time") + op + "1970-01-01T00:00:01Z"),
              std::string("create_time") + op + "1000000");
  }
  EXPECT_EQ(Parse("create_time != 1970-01-01T00:00:01Z"), "(not create_time=1000000)");
  EXPECT_THAT(Parse("create_time > yesterday"), HasSubstr("character 15: 'yesterday' is not"));
  EXPECT_THAT(Parse("create_time > 2026*"), HasSubstr("wildcards"));
  EXPECT_THAT(Parse("create_time:*"), HasSubstr("'create_time' does not support ':', only =, !="));
}

TEST(FilterTest, Patterns) {
  EXPECT_EQ(Parse("display_name:run"), "display_name={|run|}");  // contains
  EXPECT_EQ(Parse("display_name:run*"), "display_name={run|}");
  EXPECT_EQ(Parse("display_name:*"), "display_name={|}");
  EXPECT_EQ(Parse("display_name:''"), "display_name={|}");
  EXPECT_EQ(Parse("display_name=''"), "display_name={}");
  EXPECT_EQ(Parse("display_name=a**b*"), "display_name={a|b|}");
  EXPECT_EQ(Parse(R"(display_name="a\*b")"), "display_name={a*b}");
  EXPECT_EQ(Parse(R"(display_name=a\*b)"), "display_name={a*b}");
  EXPECT_EQ(Parse(R"(display_name="say \"hi\" \\ 'x'")"), R"(display_name={say "hi" \ 'x'})");
  EXPECT_EQ(Parse(R"(display_name='say "hi" it\'s')"), R"(display_name={say "hi" it's})");
  EXPECT_EQ(Parse("display_name=Zürich-漢"), "display_name={Zürich-漢}");
  EXPECT_EQ(Parse("display_name='a AND b'"), "display_name={a AND b}");
  EXPECT_EQ(Parse("name=projects/p/locations/l/customJobs/1"),
            "name={projects/p/locations/l/customJobs/1}");
  EXPECT_EQ(Parse("display_name=ANDREW"), "display_name={ANDREW}");
}

TEST(FilterTest, Labels) {
  EXPECT_EQ(Parse("labels:k"), "[k]={|}");
  EXPECT_EQ(Parse("labels:'k k'"), "[k k]={|}");
  EXPECT_EQ(Parse("labels.k:v"), "[k]={v}");
  EXPECT_EQ(Parse("labels.k!=v"), "(not [k]={v})");
  EXPECT_EQ(Parse("labels.\"a.b c\"=v"), "[a.b c]={v}");
  EXPECT_EQ(Parse("labels.my-key_1='x y'"), "[my-key_1]={x y}");
  EXPECT_EQ(Parse("labels.AND=v"), "[AND]={v}");
  EXPECT_EQ(Parse("labels.k=''"), "[k]={}");
  EXPECT_THAT(Parse("labels=v"), HasSubstr("labels.KEY=VALUE or labels:KEY"));
  EXPECT_THAT(Parse("labels.a.b=v"), HasSubstr("quote a key that has dots"));
  EXPECT_THAT(Parse("labels.=v"), HasSubstr("expected a label's key, found '='"));
  EXPECT_THAT(Parse("labels.'a*'=v"), HasSubstr("wildcards"));
  EXPECT_THAT(Parse("labels:a*"), HasSubstr("wildcards"));
  EXPECT_THAT(Parse("labels.k<v"), HasSubstr("does not support '<'"));
}

TEST(FilterTest, GroupsOfValues) {
  EXPECT_EQ(Parse("state = (JOB_STATE_FAILED OR JOB_STATE_CANCELLED)"), "(or state=5 state=7)");
  EXPECT_EQ(Parse("display_name:(a b OR -c)"),
            "(and display_name={|a|} (or display_name={|b|} display_name={|-c|}))");
  EXPECT_EQ(Parse("labels.k=(a OR NOT b)"), "(or [k]={a} (not [k]={b}))");
  EXPECT_THAT(Parse("state != (JOB_STATE_FAILED OR JOB_STATE_CANCELLED)"),
              HasSubstr("'!=' takes one value"));
}

TEST(FilterTest, States) {
  EXPECT_EQ(Parse("state=JOB_STATE_UNSPECIFIED"), "state=0");
  EXPECT_EQ(Parse("state='JOB_STATE_PARTIALLY_SUCCEEDED'"), "state=11");
  EXPECT_EQ(Parse("state=SUCCEEDED"), "state=4");
  EXPECT_EQ(Parse("state!='FAILED'"), "(not state=5)");
  EXPECT_EQ(Parse("state=RUNNING", "trainingPipelines"), "state=3");
  EXPECT_THAT(Parse("state=EXPIRED", "trainingPipelines"), HasSubstr("unknown"));
  EXPECT_THAT(Parse("state=DONE"), HasSubstr("character 7: unknown state DONE; the "
                                             "states are JOB_STATE_UNSPECIFIED, JOB_STATE_Q"));
  EXPECT_THAT(Parse("state=succeeded"), HasSubstr("unknown state"));
  EXPECT_THAT(Parse("state=job_state_failed"), HasSubstr("unknown state"));
  EXPECT_THAT(Parse("state=JOB_STATE_*"), HasSubstr("unknown state"));
  EXPECT_THAT(Parse("state:JOB_STATE_FAILED"), HasSubstr("only = and !="));
  EXPECT_THAT(Parse("state>JOB_STATE_FAILED"), HasSubstr("only = and !="));
  EXPECT_THAT(Parse("state=JOB_STATE_FAILED", "trainingPipelines"), HasSubstr("PIPELINE_STATE_"));
  EXPECT_THAT(Parse("state=PIPELINE_STATE_EXPIRED", "trainingPipelines"), HasSubstr("unknown"));
}

TEST(FilterTest, ErrorsNameThePlaceTheTokenAndTheFields) {
  EXPECT_EQ(Parse("state=JOB_STATE_FAILED AND stat=1"),
            "filter: at character 28: unknown field 'stat'; the fields are display_name, name, "
            "state, create_time, update_time and labels.KEY");
  EXPECT_EQ(Parse("display_name='ä' x"),
            "filter: at character 18: unknown field 'x'; the fields are display_name, name, state, "
            "create_time, update_time and labels.KEY");
  EXPECT_EQ(Parse("state"),
            "filter: at character 6: expected a comparison such as = behind 'state', found the end "
            "of the filter");
  EXPECT_EQ(Parse("name=a and name=b"),
            "filter: at character 8: unknown field 'and'; write AND, OR and NOT in capitals");
  EXPECT_EQ(Parse("name=a AND"),
            "filter: at character 11: expected a field, found the end of the filter");
  EXPECT_EQ(Parse("name="),
            "filter: at character 6: expected a value, found the end of the filter");
  EXPECT_EQ(Parse("name==a"), "filter: at character 6: expected a value, found '='");
  EXPECT_EQ(Parse("(name=a"), "filter: at character 8: expected ')', found the end of the filter");
  EXPECT_EQ(Parse("name=a)"),
            "filter: at character 7: expected AND, OR or the end of the filter, found ')'");
  EXPECT_EQ(Parse("()"), "filter: at character 2: expected a field, found ')'");
  EXPECT_EQ(Parse("name='a"), "filter: at character 6: the quote ' is never closed");
  EXPECT_EQ(Parse("name='a\\'"), "filter: at character 6: the quote ' is never closed");
  EXPECT_EQ(
      Parse("state.x=1"),
      "filter: at character 1: 'state' has no fields of its own; the fields are display_name, "
      "name, state, create_time, update_time and labels.KEY");
  EXPECT_THAT(Parse("name=a=b"), HasSubstr("quote a value that has such characters, found '='"));
  EXPECT_THAT(Parse("name=a OR OR name=b"), HasSubstr("expected a field, found 'OR'"));
  EXPECT_THAT(Parse("name=AND"), HasSubstr("expected a value (a quoted one"));
  EXPECT_THAT(Parse("*"), HasSubstr("expected a field, found '*'"));
  EXPECT_THAT(Parse("f(x)"), HasSubstr("unknown field 'f'"));
  EXPECT_THAT(Parse(R"(name=a\ b)"), HasSubstr("nothing follows the backslash"));
  EXPECT_THAT(Parse(std::string("name='a\0'", 9)), HasSubstr("NUL"));
  EXPECT_THAT(Parse(std::string("name='\\\0'", 9)), HasSubstr("NUL"));
}

TEST(FilterTest, Limits) {
  const std::string long_value(kFilterBytesMax - 5, 'x');
  EXPECT_TRUE(ParseFilter("name=" + long_value, "customJobs"));
  EXPECT_THAT(Parse("name=x" + long_value), HasSubstr("10001 bytes; at most 10000"));
  const auto nested = [](int depth) {
    return std::string(size_t(depth), '(') + "name=a" + std::string(size_t(depth), ')');
  };
  EXPECT_EQ(Parse(nested(kFilterNestingMax)), "name={a}");
  EXPECT_THAT(Parse(nested(kFilterNestingMax + 1)), HasSubstr("character 51: parentheses nest"));
  std::string side_by_side;
  for (int i = 0; i < kFilterNestingMax + 10; ++i) side_by_side += "(name=a)";
  EXPECT_TRUE(ParseFilter(side_by_side, "customJobs"));
  std::string many;
  for (int i = 0; i < kFilterConditionsMax; ++i) many += "name=a ";
  EXPECT_TRUE(ParseFilter(many, "customJobs"));
  EXPECT_THAT(Parse(many + "name=a"), HasSubstr("more than 500 conditions"));
}

TEST(FilterTest, MessagesStayUtf8) {
  std::string field;
  for (int i = 0; i < 40; ++i) field += "漢";
  std::string shown;
  for (int i = 0; i < 20; ++i) shown += "漢";
  EXPECT_THAT(Parse(field + "=1"), HasSubstr("unknown field '" + shown + "…'"));
  EXPECT_THAT(Parse("name=a " + field.substr(0, 60) + "x" + "=1"), HasSubstr("'" + shown + "…'"));
}

}  // namespace
}  // namespace muster::store
