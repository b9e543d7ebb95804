// The processes' own diagnostics, to standard error: "2026-11-20T17:36:26.217Z I job 12: started".
// (Replicas' logs are src/logs.) Thread-safe.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace muster {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

void SetLogLevel(LogLevel least);
void LogLine(LogLevel level, std::string_view message);

template <typename... Args>
void LogInfo(fmt::format_string<Args...> format, Args&&... args) {
  LogLine(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogWarning(fmt::format_string<Args...> format, Args&&... args) {
  LogLine(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogError(fmt::format_string<Args...> format, Args&&... args) {
  LogLine(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace muster
