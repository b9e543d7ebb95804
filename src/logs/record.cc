#include "logs/record.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/utf8.h"

namespace muster::logs {

namespace {
constexpr size_t kTimeDigits = 16;
constexpr size_t kHeadBytes = kTimeDigits + 3;  // "<time> O "

// Cloud Logging's severities; the number of each is its place times 100.
constexpr std::array<std::string_view, 9> kSeverities = {
    "DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY"};

std::string_view SeverityOf(const nlohmann::json& value) {
  if (value.is_number_integer()) {
    const auto number = value.get<int64_t>();
    return number >= 0 && number <= 800 ? kSeverities[size_t(number / 100)] : "";
  }
  if (!value.is_string()) return "";
  std::string name = value.get<std::string>();
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  if (name == "WARN") return "WARNING";
  if (name == "FATAL") return "CRITICAL";
  const auto* known = std::ranges::find(kSeverities, name);
  return known == kSeverities.end() ? "" : *known;
}

bool MayBeStructured(std::string_view text) {
  return text.size() > 2 && text.front() == '{' && text.back() == '}' &&
         (text.find("\"severity\"") != std::string_view::npos ||
          text.find("\"message\"") != std::string_view::npos);
}

void Lift(std::string_view text, Entry& entry) {
  const auto document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return;
  if (const auto it = document.find("severity"); it != document.end()) {
    if (const std::string_view severity = SeverityOf(*it); !severity.empty()) {
      entry.severity = severity;
    }
  }
  if (const auto it = document.find("message"); it != document.end() && it->is_string()) {
    entry.message = it->get<std::string>();
  }
}
}  // namespace

void AppendRecord(std::string& out, Time time, Stream stream, bool continues,
                  std::string_view text) {
  char head[kHeadBytes];
  int64_t micros = std::max<int64_t>(ToMicros(time), 0);
  for (size_t i = kTimeDigits; i-- > 0; micros /= 10) head[i] = char('0' + micros % 10);
  const char letter = static_cast<char>(stream);
  head[kTimeDigits] = ' ';
  head[kTimeDigits + 1] = continues ? char(letter | 0x20) : letter;
  head[kTimeDigits + 2] = ' ';
  out.append(head, sizeof head).append(text).push_back('\n');
}

std::optional<Record> ParseRecord(std::string_view line) {
  if (line.size() < kHeadBytes || line[kTimeDigits] != ' ' || line[kTimeDigits + 2] != ' ') {
    return std::nullopt;
  }
  int64_t micros = 0;
  for (size_t i = 0; i < kTimeDigits; ++i) {
    if (line[i] < '0' || line[i] > '9') return std::nullopt;
    micros = micros * 10 + (line[i] - '0');
  }
  Record record;
  record.time = FromMicros(micros);
  const char letter = line[kTimeDigits + 1];
  record.continues = (letter & 0x20) != 0;
  switch (letter & ~0x20) {
    case 'O':
      record.stream = Stream::kStdout;
      break;
    case 'E':
      record.stream = Stream::kStderr;
      break;
    case 'F':
      record.stream = Stream::kFile;
      break;
    default:
      return std::nullopt;
  }
  record.text = line.substr(kHeadBytes);
  return record;
}

Entry ToEntry(Stream stream, std::string_view text) {
  if (text.ends_with('\r')) text.remove_suffix(1);
  Entry entry;
  entry.severity = stream == Stream::kStderr ? "ERROR" : "INFO";
  entry.message = ToValidUtf8(text);
  if (MayBeStructured(entry.message)) Lift(std::string(entry.message), entry);
  return entry;
}

}  // namespace muster::logs
