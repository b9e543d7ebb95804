// What this module needs to know of UTF-8. Internal to it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::job {

// Unicode characters, not bytes, of valid UTF-8.
size_t CountCharacters(std::string_view utf8);

// `text` with every byte that belongs to no character replaced by U+FFFD: what programs print, and
// what was cut in the middle of a character, has to pass through JSON and protobuf.
std::string ValidUtf8(std::string_view text);

}  // namespace muster::job
