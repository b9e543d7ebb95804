#include "base/time.h"

#include <charconv>
#include <ctime>

namespace muster {

Time SystemClock::Now() const {
  return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
}

std::string FormatRfc3339(Time time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const std::chrono::year_month_day date(std::chrono::floor<std::chrono::days>(seconds));
  const std::chrono::hh_mm_ss clock(seconds - std::chrono::floor<std::chrono::days>(seconds));
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", int(date.year()),
                     unsigned(date.month()), unsigned(date.day()), clock.hours().count(),
                     clock.minutes().count(), clock.seconds().count(), (time - seconds).count());
}

namespace {
// Reads exactly `digits` decimal digits and drops them from the text.
bool TakeNumber(std::string_view& text, size_t digits, int& value) {
  if (text.size() < digits) return false;
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): the end is given
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, value);
  if (error != std::errc() || end != text.data() + digits || text.front() == '-') return false;
  text.remove_prefix(digits);
  return true;
}

bool TakeChar(std::string_view& text, std::string_view accepted) {
  if (text.empty() || accepted.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

// ".217" and the like; digits past the microsecond are dropped.
bool TakeFraction(std::string_view& text, int64_t& micros) {
  micros = 0;
  if (!TakeChar(text, ".")) return true;
  int64_t scale = 100'000;
  size_t digits = 0;
  for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1)) {
    micros += (text.front() - '0') * scale;
    scale /= 10;
    ++digits;
  }
  return digits > 0 && digits <= 9;
}

bool TakeOffset(std::string_view& text, std::chrono::minutes& offset) {
  offset = std::chrono::minutes(0);
  if (TakeChar(text, "Zz")) return true;
  if (text.empty() || (text.front() != '+' && text.front() != '-')) return false;
  const int sign = text.front() == '-' ? -1 : 1;
  text.remove_prefix(1);
  int hours = 0, minutes = 0;
  if (!TakeNumber(text, 2, hours) || !TakeChar(text, ":") || !TakeNumber(text, 2, minutes) ||
      hours > 23 || minutes > 59) {
    return false;
  }
  offset = std::chrono::minutes(sign * (hours * 60 + minutes));
  return true;
}
}  // namespace

Result<Time> ParseRfc3339(std::string_view text) {
  std::string_view rest = text;
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  int64_t micros = 0;
  std::chrono::minutes offset(0);
  const bool read = TakeNumber(rest, 4, year) && TakeChar(rest, "-") &&
                    TakeNumber(rest, 2, month) && TakeChar(rest, "-") && TakeNumber(rest, 2, day) &&
                    TakeChar(rest, "Tt ") && TakeNumber(rest, 2, hour) && TakeChar(rest, ":") &&
                    TakeNumber(rest, 2, minute) && TakeChar(rest, ":") &&
                    TakeNumber(rest, 2, second) && TakeFraction(rest, micros) &&
                    TakeOffset(rest, offset) && rest.empty();
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  if (!read || !date.ok() || hour > 23 || minute > 59 || second > 60) {
    return Fail(Code::kInvalidArgument, "'{}' is not an RFC 3339 time such as 2026-11-20T17:36:26Z",
                text);
  }
  return Time(std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(hour) +
              std::chrono::minutes(minute) + std::chrono::seconds(second) + Duration(micros) -
              offset);
}

}  // namespace muster
