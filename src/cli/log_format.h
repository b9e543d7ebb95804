// Log entries as lines for people. Pure, but for the time zone.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/time.h"

namespace muster::cli {

struct LogEntry {
  Time time{};
  std::string severity;
  std::string task_name;
  int attempt = 0;
  std::string message;
};

// A muster.v1.LogEntry in JSON. INVALID_ARGUMENT if it is none.
Result<LogEntry> LogEntryFromJson(const nlohmann::json& value);

struct LogStyle {
  bool color = false;
  bool keep_multiline = false;  // a message of several lines stands as it is, behind one prefix
};

// Writes "17:36:26.217 workerpool0-0 | the message\n", one line for each line of the message, in
// local time. Replicas have a colour each; lines of the service are marked "="; a severity that
// the program itself chose (WARNING, CRITICAL, …) is named, while ERROR, which mostly just means
// standard error, is not shouted.
class LogFormatter {
 public:
  explicit LogFormatter(const LogStyle& style) : style_(style) {}
  void Append(const LogEntry& entry, std::string& out);

 private:
  std::string LocalTime(Time time);

  const LogStyle style_;
  int64_t second_ = -1;      // what second_text_ tells
  std::string second_text_;  // "17:36:26"
};

// What a terminal would show of `line`: of text overwritten by "\r" the last, no other control
// characters, and no escape sequences but colours (none without `color`).
std::string CleanLine(std::string_view line, bool color);

}  // namespace muster::cli
