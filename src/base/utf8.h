// Programs print any bytes and networks bring any; messages and JSON hold UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

// The bytes of the well-formed character that `text` (not empty) begins with; 0 if it begins with
// none: no overlong forms, no surrogates, nothing above U+10FFFF.
size_t Utf8CharacterBytes(std::string_view text);

bool IsValidUtf8(std::string_view text);

// Each byte that is no part of well-formed UTF-8 becomes U+FFFD.
std::string ToValidUtf8(std::string_view bytes);

// The largest size ≤ `size` that does not cut a character of `bytes` in two (`size` itself if the
// bytes there are no UTF-8).
size_t CharacterBoundary(std::string_view bytes, size_t size);

// Unicode characters, not bytes, of valid UTF-8.
size_t CountCharacters(std::string_view utf8);

}  // namespace muster
