#include "cli/log_format.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>

#include "cli/api.h"

namespace muster::cli {
namespace {

constexpr size_t kTaskColumns = 13;  // "workerpool0-0"

// The chief is green, the others take turns; no red, which means trouble, and no grey.
int TaskColor(std::string_view task_name) {
  constexpr auto kColors = std::to_array({36, 33, 35, 34, 96, 93, 95, 94});
  if (task_name == "workerpool0-0") return 32;
  size_t sum = 0;
  size_t number = 0;
  for (const char c : task_name) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      number = number * 10 + (c - '0');
    } else {
      sum += number * 3;
      number = 0;
    }
  }
  return kColors[(sum + number) % kColors.size()];
}

std::string Escape(int code, std::string_view text) {
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

// A severity worth a word: not those that only say which stream a line came from.
std::string SeverityWord(const LogEntry& entry) {
  const std::string& severity = entry.severity;
  const bool is_plain =
      severity.empty() || severity == "DEFAULT" || severity == "INFO" || severity == "ERROR";
  return is_plain ? "" : severity + ": ";
}

int MessageColor(const LogEntry& entry) {
  const bool is_service = entry.task_name == "service";
  if (entry.severity == "WARNING") return 33;
  if (entry.severity == "CRITICAL" || entry.severity == "ALERT" || entry.severity == "EMERGENCY") {
    return 31;
  }
  if (is_service) return entry.severity == "ERROR" ? 31 : 1;
  return 0;
}

// The length of the escape sequence at the front of `text`; 0: there is none.
size_t EscapeLength(std::string_view text) {
  if (!text.starts_with('\x1b')) return 0;
  if (text.size() < 2) return 1;
  if (text[1] == '[') {
    size_t end = 2;
    while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
    return std::min(end + 1, text.size());
  }
  if (text[1] == ']') {  // a window's title or a link, up to BEL or ESC
    const size_t end = text.find_first_of("\a\x1b", 2);
    if (end == std::string_view::npos) return text.size();
    return text[end] == '\a' ? end + 1 : std::min(end + 2, text.size());
  }
  return 2;
}

}  // namespace

Result<LogEntry> LogEntryFromJson(const nlohmann::json& value) {
  if (!value.is_object()) return Fail(Code::kInvalidArgument, "a log entry is not a JSON object");
  LogEntry entry;
  if (const std::string time = TextAt(value, "timestamp"); !time.empty()) {
    MUSTER_ASSIGN(entry.time, ParseRfc3339(time));
  }
  entry.severity = TextAt(value, "severity");
  entry.task_name = TextAt(value, "taskName");
  entry.message = TextAt(value, "message");
  if (const auto& attempt = ValueAt(value, "attempt"); attempt.is_number_integer()) {
    entry.attempt = attempt.get<int>();
  }
  return entry;
}

std::string CleanLine(std::string_view line, bool color) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  if (const size_t last = line.rfind('\r'); last != std::string_view::npos) {
    line.remove_prefix(last + 1);
  }
  std::string clean;
  bool colored = false;
  while (!line.empty()) {
    if (const size_t length = EscapeLength(line); length > 0) {
      const std::string_view escape = line.substr(0, length);
      if (color && escape.ends_with('m') && escape.starts_with("\x1b[")) {
        clean += escape;
        colored = true;
      }
      line.remove_prefix(length);
      continue;
    }
    const auto byte = static_cast<unsigned char>(line.front());
    if (byte >= 0x20 ? byte != 0x7f : byte == '\t') clean += line.front();
    line.remove_prefix(1);
  }
  if (colored) clean += "\x1b[0m";  // must not colour what follows
  return clean;
}

std::string LogFormatter::LocalTime(Time time) {
  const auto second = std::chrono::floor<std::chrono::seconds>(time);
  const int64_t ms = std::chrono::floor<std::chrono::milliseconds>(time - second).count();
  const std::time_t seconds = second.time_since_epoch().count();
  if (second_text_.empty() || seconds != second_) {
    std::tm local{};
    ::localtime_r(&seconds, &local);
    second_ = seconds;
    second_text_ = fmt::format("{:02}:{:02}:{:02}", local.tm_hour, local.tm_min, local.tm_sec);
  }
  return fmt::format("{}.{:03}", second_text_, ms);
}

void LogFormatter::Append(const LogEntry& entry, std::string& out) {
  const bool is_service = entry.task_name == "service";
  std::string task = entry.task_name;
  if (entry.attempt > 0) task += fmt::format("#{}", entry.attempt + 1);
  if (task.size() < kTaskColumns) task.append(kTaskColumns - task.size(), ' ');
  std::string time = LocalTime(entry.time);
  if (style_.color) {
    time = Escape(2, time);
    task = is_service ? Escape(1, task) : Escape(TaskColor(entry.task_name), task);
  }
  const std::string prefix = fmt::format("{} {} {}", time, task, is_service ? '=' : '|');
  const int message_color = style_.color ? MessageColor(entry) : 0;

  std::string_view rest = entry.message;
  while (rest.ends_with('\n')) rest.remove_suffix(1);
  for (bool first = true;; first = false) {
    const size_t end = rest.find('\n');
    std::string line = CleanLine(rest.substr(0, end), style_.color);
    if (first) line.insert(0, SeverityWord(entry));
    const bool has_prefix = first || !style_.keep_multiline;
    if (has_prefix) out += prefix;
    if (has_prefix && !line.empty()) out += ' ';
    out += message_color != 0 && !line.empty() ? Escape(message_color, line) : line;
    out += '\n';
    if (end == std::string_view::npos) return;
    rest.remove_prefix(end + 1);
  }
}

}  // namespace muster::cli
