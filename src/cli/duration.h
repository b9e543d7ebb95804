// Durations as people write and read them.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/error.h"

namespace muster::cli {

// "90", "90s", "15m", "1h30m", "2d": a sum of parts from large to small. A bare number is seconds.
Result<std::chrono::seconds> ParseDuration(std::string_view text);

// For people: "830 ms", "4.2 s", "47 s", "3 m 05 s", "2 h 07 m", "3 d 04 h".
std::string FormatDuration(std::chrono::milliseconds duration);

}  // namespace muster::cli
