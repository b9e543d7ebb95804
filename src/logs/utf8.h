// Programs print any bytes; what the API hands on must be UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::logs {

// Each byte that is no part of well-formed UTF-8 becomes U+FFFD.
std::string ToValidUtf8(std::string_view bytes);

// The largest size ≤ `size` that does not cut a character of `bytes` in two (`size` itself if the
// bytes there are no UTF-8).
size_t CharacterBoundary(std::string_view bytes, size_t size);

}  // namespace muster::logs
