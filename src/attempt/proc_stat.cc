#include "attempt/proc_stat.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <system_error>

#include "base/fd.h"

namespace muster::attempt {

namespace {
template <typename Number>
bool ParseNumber(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}
}  // namespace

std::optional<ProcStat> ParseProcStat(std::string_view line) {
  constexpr int kState = 3, kParent = 4, kSession = 6, kStartTime = 22;  // counted from 1
  const size_t name_end = line.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  line.remove_prefix(name_end + 1);
  ProcStat stat;
  for (int field = kState; field <= kStartTime; ++field) {
    const size_t begin = line.find_first_not_of(" \n");
    if (begin == std::string_view::npos) return std::nullopt;
    line.remove_prefix(begin);
    const std::string_view text = line.substr(0, line.find_first_of(" \n"));
    line.remove_prefix(text.size());
    if (field == kState) stat.state = text.front();
    const bool understood = (field != kParent || ParseNumber(text, stat.parent)) &&
                            (field != kSession || ParseNumber(text, stat.session)) &&
                            (field != kStartTime || ParseNumber(text, stat.start_time_ticks));
    if (!understood) return std::nullopt;
  }
  return stat;
}

std::optional<ProcStat> ReadProcStat(int pid) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  char buffer[1024];
  // A process that ends while its file is read shows as ESRCH.
  const ssize_t got = fd ? ::read(fd.get(), buffer, sizeof buffer) : -1;
  if (got <= 0) return std::nullopt;
  return ParseProcStat({buffer, size_t(got)});
}

}  // namespace muster::attempt
