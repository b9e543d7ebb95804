#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace muster {
namespace {

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

spdlog::logger& Logger() {
  static spdlog::logger* const kLogger = [] {
    auto* made = new spdlog::logger("muster", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %L %v", spdlog::pattern_time_type::utc);
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *kLogger;
}

}  // namespace

void SetLogLevel(LogLevel least) { Logger().set_level(SpdlogLevel(least)); }

void LogLine(LogLevel level, std::string_view message) {
  Logger().log(SpdlogLevel(level), spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace muster
