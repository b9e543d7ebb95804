#include "server/json_string.h"

#include <array>

#include "base/utf8.h"

namespace muster::server {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Bytes that JSON strings take as they are.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (int c = 0x20; c < 0x80; ++c) plain[c] = c != '"' && c != '\\' && c != 0x7F;
  return plain;
}();

void AppendEscape(std::string& out, unsigned char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  constexpr char kHex[] = "0123456789abcdef";
  out += "\\u00";
  out += kHex[c >> 4];
  out += kHex[c & 15];
}

}  // namespace

void AppendJsonString(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    size_t plain = 0;
    while (plain < text.size() && kPlain[static_cast<unsigned char>(text[plain])]) ++plain;
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const auto c = static_cast<unsigned char>(text.front());
    size_t length = 1;
    if (c < 0x80) {
      AppendEscape(out, c);
    } else {
      length = Utf8CharacterBytes(text);
      out += length == 0 ? kReplacement : text.substr(0, length);
      if (length == 0) length = 1;
    }
    text.remove_prefix(length);
  }
  out += '"';
}

}  // namespace muster::server
