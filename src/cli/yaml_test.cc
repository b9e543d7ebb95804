#include "cli/yaml.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace muster::cli {
namespace {

using nlohmann::json;

json Parse(std::string_view text) {
  const Result<json> value = ParseDocument(text);
  EXPECT_TRUE(value.has_value()) << (value ? "" : value.error().message);
  return value ? *value : json();
}

TEST(ParseDocument, TypesPlainScalars) {
  const json value = Parse(R"(
count: 3
negative: -4
hex: 0x1f
octal: 0o17
rate: 0.5
exponent: 1e-3
yes_: true
nothing: ~
empty:
text: n1-standard-4
version: 1.2.3
underscore: 1_000
country: no
date: 2026-11-20
plus: +5
)");
  EXPECT_EQ(value, json::parse(R"({
    "count": 3, "negative": -4, "hex": 31, "octal": 15, "rate": 0.5, "exponent": 0.001,
    "yes_": true, "nothing": null, "empty": null, "text": "n1-standard-4", "version": "1.2.3",
    "underscore": "1_000", "country": "no", "date": "2026-11-20", "plus": 5})"));
  EXPECT_TRUE(value["count"].is_number_integer());
}

TEST(ParseDocument, QuotedScalarsAreText) {
  EXPECT_EQ(Parse("a: '3'\nb: \"true\"\nc: ''"), json::parse(R"({"a":"3","b":"true","c":""})"));
}

TEST(ParseDocument, KeepsTextFieldsAsWritten) {
  const json value = Parse(R"(
workerPoolSpecs:
- replicaCount: 1
  containerSpec:
    imageUri: 1234
    args: ["--lr", 0.10, 1e5, true, 007, null]
    command: [python, 3]
    env:
    - name: PORT
      value: 8080
labels: {team: 7, on: yes}
displayName: 12
)");
  const json& container = value["workerPoolSpecs"][0]["containerSpec"];
  EXPECT_EQ(container["args"], json({"--lr", "0.10", "1e5", "true", "007", nullptr}));
  EXPECT_EQ(container["command"], json({"python", "3"}));
  EXPECT_EQ(container["env"][0]["value"], "8080");
  EXPECT_EQ(container["imageUri"], "1234");
  EXPECT_EQ(value["workerPoolSpecs"][0]["replicaCount"], 1);
  EXPECT_EQ(value["labels"], json::parse(R"({"team":"7","on":"yes"})"));
  EXPECT_EQ(value["displayName"], "12");
}

TEST(ParseDocument, ReadsJson) {
  const json value =
      Parse(R"({"args": ["--lr", 0.1, 1, true], "replicaCount": 2, "x": "\ud83d\ude00"})");
  EXPECT_EQ(value["args"], json({"--lr", "0.1", "1", "true"}));
  EXPECT_EQ(value["replicaCount"], 2);
  EXPECT_EQ(value["x"], "\xF0\x9F\x98\x80");
}

TEST(ParseDocument, FollowsAliases) {
  EXPECT_EQ(Parse("a: &x {b: 1}\nc: *x"), json::parse(R"({"a":{"b":1},"c":{"b":1}})"));
}

TEST(ParseDocument, NamesTheLine) {
  EXPECT_TRUE(ParseDocument("a: 1\nb: [").error().message.starts_with("line "));
  EXPECT_EQ(ParseDocument("a: 1\nb: 2\na: 3").error().message, "line 3, column 1: duplicate key a");
}

TEST(ParseDocument, RefusesSeveralDocuments) {
  EXPECT_FALSE(ParseDocument("a: 1\n---\nb: 2").has_value());
}

TEST(ParseDocument, RefusesExplodingAliases) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) text += "*a" + std::to_string(i - 1) + ", ";
    text += "]\n";
  }
  EXPECT_EQ(ParseDocument(text).error().code, Code::kInvalidArgument);
}

TEST(ParseDocument, RefusesDeepNesting) {
  EXPECT_FALSE(ParseDocument(std::string(5000, '[')).has_value());
  EXPECT_FALSE(ParseDocument(std::string(300, '[') + std::string(300, ']')).has_value());
}

TEST(ToYaml, WritesInGcloudsStyle) {
  const json value = json::parse(R"({
    "name": "projects/p/locations/r/customJobs/1", "labels": {}, "list": [],
    "jobSpec": {"workerPoolSpecs": [
      {"replicaCount": "1", "containerSpec": {"args": ["--lr", "0.1", "a: b"]}}, {}]},
    "error": {"code": 3, "message": "first\n  second\n"}, "flag": true})");
  EXPECT_EQ(ToYaml(value), R"(error:
  code: 3
  message: |
    first
      second
flag: true
jobSpec:
  workerPoolSpecs:
  - containerSpec:
      args:
      - --lr
      - '0.1'
      - 'a: b'
    replicaCount: '1'
  - {}
labels: {}
list: []
name: projects/p/locations/r/customJobs/1
)");
}

// Strings of the pieces that make YAML go wrong.
rc::Gen<std::string> NastyText() {
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
                          "a", "0", " ", ":", "#", "-", "'", "\"", "\\", "\n", "\t", "--", "[", "{",
                          "}", "&", "*", "!", "|", ">", "%", "@", "`", ",", "?", "~", "null",
                          "true", "no", "0x1", "1e3", ".5", "=", "<<", "\xC3\xA9", "\xE2\x80\xA8",
                          "\x01", "\x7f", "---", "...", "./x", "~/x", "$(A)", "\xF0\x9F\x98\x80")),
                      [](const std::vector<std::string>& pieces) {
                        std::string text;
                        for (const std::string& piece : pieces) text += piece;
                        return text;
                      });
}

rc::Gen<json> AnyJson(int depth) {
  const auto scalar = rc::gen::oneOf(
      rc::gen::map(NastyText(), [](std::string text) { return json(std::move(text)); }),
      rc::gen::map(rc::gen::arbitrary<int64_t>(), [](int64_t number) { return json(number); }),
      rc::gen::map(rc::gen::inRange(-1000, 1000), [](int number) { return json(number / 8.0); }),
      rc::gen::element(json(nullptr), json(true), json(false)));
  if (depth == 0) return scalar;
  return rc::gen::oneOf(
      scalar,
      rc::gen::map(rc::gen::container<std::vector<json>>(AnyJson(depth - 1)),
                   [](const std::vector<json>& items) { return json(items); }),
      rc::gen::map(
          rc::gen::container<std::map<std::string, json>>(
              rc::gen::map(NastyText(), [](const std::string& text) { return "k" + text; }),
              AnyJson(depth - 1)),
          [](const std::map<std::string, json>& items) { return json(items); }));
}

RC_GTEST_PROP(ToYaml, ReadsBackAsItWas, ()) {
  const json value = *rc::gen::resize(12, AnyJson(3));
  const std::string text = ToYaml(value);
  const Result<json> back = ParseDocument(text);
  RC_LOG() << text << "\n" << value.dump();
  RC_ASSERT(back.has_value());
  RC_ASSERT(*back == value);
}

}  // namespace
}  // namespace muster::cli
