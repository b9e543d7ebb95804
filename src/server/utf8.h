// Text that may not be UTF-8 (users' output, network input), made fit for JSON and messages.
#pragma once

#include <string>
#include <string_view>

namespace muster::server {

bool IsValidUtf8(std::string_view text);

// Every byte that is no part of valid UTF-8 becomes U+FFFD.
std::string SanitizeUtf8(std::string_view text);

// The text as a JSON string with its quotes; invalid bytes become U+FFFD.
void AppendJsonString(std::string& out, std::string_view text);

}  // namespace muster::server
