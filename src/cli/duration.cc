#include "cli/duration.h"

#include <charconv>
#include <cstdint>

namespace muster::cli {

Result<std::chrono::seconds> ParseDuration(std::string_view text) {
  constexpr int64_t kSecondsMax = int64_t{1} << 40;
  const auto fail = [whole = text] {
    return Fail(Code::kInvalidArgument, "[{}] is no duration; write it like 90s, 15m, 1h30m or 2d",
                whole);
  };
  int64_t sum = 0;
  int64_t last_unit = kSecondsMax;
  std::string_view rest = text;
  if (rest.empty()) return fail();
  while (!rest.empty()) {
    int64_t count = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), count);
    if (error != std::errc() || count < 0 || count > kSecondsMax / 86400) return fail();
    const bool bare = rest.data() + rest.size() == end && rest.size() == text.size();
    rest.remove_prefix(end - rest.data());
    if (bare) return std::chrono::seconds(count);
    int64_t unit = 0;
    if (rest.starts_with('s')) unit = 1;
    if (rest.starts_with('m')) unit = 60;
    if (rest.starts_with('h')) unit = 3600;
    if (rest.starts_with('d')) unit = 86400;
    if (unit == 0 || unit >= last_unit) return fail();
    rest.remove_prefix(1);
    last_unit = unit;
    sum += count * unit;
  }
  return std::chrono::seconds(sum);
}

std::string FormatDuration(std::chrono::milliseconds duration) {
  const int64_t ms = duration.count() < 0 ? 0 : duration.count();
  if (ms < 1'000) return fmt::format("{} ms", ms);
  if (ms < 10'000) return fmt::format("{}.{} s", ms / 1000, ms % 1000 / 100);
  const int64_t s = ms / 1000;
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} m {:02} s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{} h {:02} m", s / 3600, s / 60 % 60);
  return fmt::format("{} d {:02} h", s / 86400, s / 3600 % 24);
}

}  // namespace muster::cli
