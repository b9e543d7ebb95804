#include "cli/log_format.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace muster::cli {
namespace {

class LogFormatterTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }

  static std::string Format(const LogEntry& entry, const LogStyle& style = {}) {
    std::string out;
    LogFormatter(style).Append(entry, out);
    return out;
  }

  static LogEntry Entry(std::string message, std::string severity = "INFO",
                        std::string task = "workerpool1-0") {
    return {*ParseRfc3339("2026-11-20T17:36:26.217Z"), std::move(severity), std::move(task), 0,
            std::move(message)};
  }
};

TEST_F(LogFormatterTest, HasTimeTaskAndMessage) {
  EXPECT_EQ(Format(Entry("epoch 1")), "17:36:26.217 workerpool1-0 | epoch 1\n");
  EXPECT_EQ(Format(Entry("Job is running.", "INFO", "service")),
            "17:36:26.217 service       = Job is running.\n");
  EXPECT_EQ(Format(Entry("")), "17:36:26.217 workerpool1-0 |\n");
}

TEST_F(LogFormatterTest, StandardErrorIsNotShouted) {
  EXPECT_EQ(Format(Entry("progress", "ERROR")), "17:36:26.217 workerpool1-0 | progress\n");
  EXPECT_EQ(Format(Entry("low", "WARNING")), "17:36:26.217 workerpool1-0 | WARNING: low\n");
  const std::string colored = Format(Entry("progress", "ERROR"), {.color = true});
  EXPECT_EQ(colored.find("\x1b[31m"), std::string::npos);
  EXPECT_TRUE(colored.ends_with("| progress\n"));
}

TEST_F(LogFormatterTest, NamesLaterAttempts) {
  LogEntry entry = Entry("again");
  entry.attempt = 1;
  EXPECT_EQ(Format(entry), "17:36:26.217 workerpool1-0#2 | again\n");
}

TEST_F(LogFormatterTest, RepeatsThePrefixUnlessAskedNotTo) {
  EXPECT_EQ(Format(Entry("a\n\nb\n")),
            "17:36:26.217 workerpool1-0 | a\n17:36:26.217 workerpool1-0 |\n"
            "17:36:26.217 workerpool1-0 | b\n");
  EXPECT_EQ(Format(Entry("a\n\nb\n"), {.keep_multiline = true}),
            "17:36:26.217 workerpool1-0 | a\n\nb\n");
}

TEST_F(LogFormatterTest, SecondsAreCachedRightly) {
  LogFormatter formatter({});
  std::string out;
  LogEntry entry = Entry("x");
  for (const int64_t micros : {0, 999'999, 1'000'000, -1, 0}) {
    entry.time = FromMicros(micros);
    formatter.Append(entry, out);
  }
  const std::string rest = " workerpool1-0 | x\n";
  EXPECT_EQ(out, "00:00:00.000" + rest + "00:00:00.999" + rest + "00:00:01.000" + rest +
                     "23:59:59.999" + rest + "00:00:00.000" + rest);
}

TEST_F(LogFormatterTest, ReplicasHaveTheirOwnColors) {
  const LogStyle color{.color = true};
  const std::string chief = Format(Entry("x", "INFO", "workerpool0-0"), color);
  const std::string worker = Format(Entry("x", "INFO", "workerpool1-0"), color);
  const std::string other = Format(Entry("x", "INFO", "workerpool1-1"), color);
  EXPECT_NE(chief.find("\x1b[32mworkerpool0-0"), std::string::npos);
  const auto color_of = [](const std::string& line) {
    const size_t at = line.find("workerpool");
    return line.substr(line.rfind("\x1b[", at), at - line.rfind("\x1b[", at));
  };
  EXPECT_NE(color_of(worker), color_of(other));
  EXPECT_NE(color_of(worker), color_of(chief));
}

TEST(CleanLine, ShowsWhatATerminalWouldAtTheEnd) {
  EXPECT_EQ(CleanLine("10%\r50%\r100%\r", false), "100%");
  EXPECT_EQ(CleanLine("a\x1b[1mb\x1b[0m\x1b[2K\x1b]0;title\ac\bd\x07", false), "abcd");
  EXPECT_EQ(CleanLine("a\x1b[1mb", true), "a\x1b[1mb\x1b[0m");
  EXPECT_EQ(CleanLine("\x1b[2J\x1b]8;;http://x\x1b\\link", true), "link");
  EXPECT_EQ(CleanLine("tab\tand \xC3\xA9", false), "tab\tand \xC3\xA9");
  for (const char* broken : {"\x1b", "\x1b[", "\x1b[3", "\x1b]0;x", "\x1bM"}) {
    EXPECT_EQ(CleanLine(broken, true), "") << broken + 1;
  }
}

TEST(LogEntryFromJson, TakesProtobufsJson) {
  const auto entry = LogEntryFromJson(nlohmann::json::parse(
      R"({"timestamp":"2026-11-20T17:36:26Z","severity":"ERROR","taskName":"workerpool0-0","attempt":2})"));
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->attempt, 2);
  EXPECT_EQ(entry->message, "");
  EXPECT_FALSE(LogEntryFromJson(nlohmann::json::parse("[1]")).has_value());
  EXPECT_FALSE(LogEntryFromJson({{"timestamp", "yesterday"}}).has_value());
}

}  // namespace
}  // namespace muster::cli
