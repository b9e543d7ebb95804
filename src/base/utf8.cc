#include "base/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace muster {

namespace {
bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Most lines are, so eight bytes at a time.
bool IsAscii(std::string_view bytes) {
  uint64_t seen = 0;
  for (; bytes.size() >= sizeof seen; bytes.remove_prefix(sizeof seen)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    seen |= word;
  }
  for (const char c : bytes) seen |= static_cast<unsigned char>(c);
  return (seen & 0x8080808080808080U) == 0;
}

}  // namespace

size_t Utf8CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  size_t length = 0;
  unsigned char second_min = 0x80, second_max = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) second_min = 0xA0;  // no overlong forms
    if (lead == 0xED) second_max = 0x9F;  // no surrogates
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) second_min = 0x90;
    if (lead == 0xF4) second_max = 0x8F;  // at most U+10FFFF
  }
  if (length == 0 || text.size() < length) return 0;
  if (byte(1) < second_min || byte(1) > second_max) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (!IsContinuation(text[i])) return 0;
  }
  return length;
}

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8CharacterBytes(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string ToValidUtf8(std::string_view bytes) {
  if (IsAscii(bytes)) return std::string(bytes);
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t length = Utf8CharacterBytes(bytes);
    if (length == 0) {
      text += "\xEF\xBF\xBD";
      bytes.remove_prefix(1);
    } else {
      text += bytes.substr(0, length);
      bytes.remove_prefix(length);
    }
  }
  return text;
}

size_t CharacterBoundary(std::string_view bytes, size_t size) {
  if (size >= bytes.size()) return bytes.size();
  for (size_t back = 0; back < 4 && back <= size; ++back) {
    if (!IsContinuation(bytes[size - back])) return size - back > 0 ? size - back : size;
  }
  return size;
}

size_t CountCharacters(std::string_view utf8) {
  return static_cast<size_t>(
      std::ranges::count_if(utf8, [](char c) { return !IsContinuation(c); }));
}

}  // namespace muster
