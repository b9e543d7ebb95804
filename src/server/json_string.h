// Text that may not be UTF-8 (users' output) as JSON.
#pragma once

#include <string>
#include <string_view>

namespace muster::server {

// The text as a JSON string with its quotes; bytes that are no UTF-8 become U+FFFD.
void AppendJsonString(std::string& out, std::string_view text);

}  // namespace muster::server
