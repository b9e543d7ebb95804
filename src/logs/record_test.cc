#include "logs/record.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace muster::logs {
namespace {

TEST(Record, HasItsDocumentedForm) {
  std::string out;
  AppendRecord(out, FromMicros(1'763'664'000'123'456), Stream::kStdout, false, "hello");
  AppendRecord(out, FromMicros(42), Stream::kStderr, true, "");
  EXPECT_EQ(out, "1763664000123456 O hello\n0000000000000042 e \n");
}

TEST(Record, RefusesDamage) {
  for (const char* line :
       {"", "x", "1763664000123456", "1763664000123456 O", "1763664000123456 X a",
        "176366400012345 O ab", "176366400012345x O a", "1763664000123456 O_a",
        "1763664000123456_O a", "-763664000123456 O a"}) {
    EXPECT_FALSE(ParseRecord(line)) << line;
  }
}

RC_GTEST_PROP(Record, ParsesWhatItFormats, (const std::string& text)) {
  RC_PRE(text.find('\n') == std::string::npos);
  const auto time = FromMicros(*rc::gen::inRange<int64_t>(0, 9'999'999'999'999'999));
  const auto stream = *rc::gen::element(Stream::kStdout, Stream::kStderr, Stream::kFile);
  const bool continues = *rc::gen::arbitrary<bool>();
  std::string out;
  AppendRecord(out, time, stream, continues, text);
  RC_ASSERT(out.back() == '\n');
  out.pop_back();
  const auto record = ParseRecord(out);
  RC_ASSERT(record.has_value());
  RC_ASSERT(record->time == time && record->stream == stream && record->text == text);
  RC_ASSERT(record->continues == continues);
}

RC_GTEST_PROP(Record, NoBytesAreTooOdd, (const std::string& bytes)) {
  (void)ParseRecord(bytes);
  const Entry entry = ToEntry(Stream::kStdout, bytes);
  RC_ASSERT(!entry.severity.empty());
}

TEST(ToEntry, SeverityFollowsTheStream) {
  EXPECT_EQ(ToEntry(Stream::kStdout, "a").severity, "INFO");
  EXPECT_EQ(ToEntry(Stream::kFile, "a").severity, "INFO");
  EXPECT_EQ(ToEntry(Stream::kStderr, "a").severity, "ERROR");
  EXPECT_EQ(ToEntry(Stream::kStderr, "a\r").message, "a");
}

TEST(ToEntry, LiftsStructuredLines) {
  const auto entry = ToEntry(Stream::kStderr, R"({"severity":"warning","message":"é","x":1})");
  EXPECT_EQ(entry.severity, "WARNING");
  EXPECT_EQ(entry.message, "é");
  EXPECT_EQ(ToEntry(Stream::kStdout, R"({"message":"m"})").message, "m");
  EXPECT_EQ(ToEntry(Stream::kStdout, R"({"severity":500,"message":"m"})").severity, "ERROR");
}

TEST(ToEntry, LeavesOtherLinesAlone) {
  for (const char* text :
       {R"({"loss":0.5})", R"({"message":"m")", R"(["message"])", R"({"message":7})", "{}",
        R"({"severity":"LOUD","loss":1})", R"({"message":"m"} trailing)"}) {
    const auto entry = ToEntry(Stream::kStdout, text);
    EXPECT_EQ(entry.message, text);
    EXPECT_EQ(entry.severity, "INFO") << text;
  }
  // A severity without a message: the line is the message.
  const auto entry = ToEntry(Stream::kStdout, R"({"severity":"ERROR","loss":1})");
  EXPECT_EQ(entry.severity, "ERROR");
  EXPECT_EQ(entry.message, R"({"severity":"ERROR","loss":1})");
}

TEST(ToEntry, DeepNestingIsHarmless) {
  const std::string deep = R"({"message":)" + std::string(60'000, '[') + "}";
  EXPECT_EQ(ToEntry(Stream::kStdout, deep).message, deep);
  const std::string balanced =
      R"({"severity":)" + std::string(30'000, '[') + std::string(30'000, ']') + "}";
  EXPECT_EQ(ToEntry(Stream::kStdout, balanced).message, balanced);
}

}  // namespace
}  // namespace muster::logs
