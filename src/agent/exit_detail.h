// What a user is told about how a program ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster::agent {

inline constexpr size_t kDetailBytesMax = 2000;

// A wait status as 0..255; a signal n is 128 + n.
int ExitStatus(int wait_status);

// The last Python traceback in the end of standard error, else its last 20 lines; introduced by the
// signal if one ended the program. Valid UTF-8 of at most kDetailBytesMax.
std::string ExitDetail(int wait_status, std::string_view stderr_tail);

// For a program that the kernel killed at its memory limit: how much it had, and what to do. What
// it wrote last is seldom about that.
std::string OutOfMemoryDetail(int64_t limit_bytes);

// Any text, made to fit.
std::string FitDetail(std::string_view text);

}  // namespace muster::agent
