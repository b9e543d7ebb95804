#include "cli/table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace muster::cli {
namespace {

using Range = std::pair<uint32_t, uint32_t>;

constexpr auto kZeroWidth = std::to_array<Range>({{0x0300, 0x036f},
                                                  {0x0483, 0x0489},
                                                  {0x0591, 0x05bd},
                                                  {0x200b, 0x200f},
                                                  {0x20d0, 0x20ff},
                                                  {0xfe00, 0xfe0f},
                                                  {0xfe20, 0xfe2f}});
constexpr auto kDoubleWidth = std::to_array<Range>({{0x1100, 0x115f},
                                                    {0x2e80, 0x303e},
                                                    {0x3041, 0xa4cf},
                                                    {0xac00, 0xd7a3},
                                                    {0xf900, 0xfaff},
                                                    {0xfe30, 0xfe6f},
                                                    {0xff00, 0xff60},
                                                    {0xffe0, 0xffe6},
                                                    {0x1f300, 0x1f64f},
                                                    {0x1f900, 0x1f9ff},
                                                    {0x20000, 0x3fffd}});

template <size_t N>
bool In(const std::array<Range, N>& ranges, uint32_t point) {
  return std::ranges::any_of(ranges, [point](const Range& range) {
    return point >= range.first && point <= range.second;
  });
}

// Decodes one code point and drops it; a wrong byte counts as one character.
uint32_t TakeCodePoint(std::string_view& text) {
  const auto first = static_cast<unsigned char>(text.front());
  const size_t length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (length == 1 || first < 0xc2 || text.size() < length) {
    text.remove_prefix(1);
    return first < 0x80 ? first : 0xfffd;
  }
  uint32_t point = first & (0xff >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    point = (point << 6) | (static_cast<unsigned char>(text[i]) & 0x3f);
  }
  text.remove_prefix(length);
  return point;
}

// Drops an escape sequence "ESC [ … letter" at the front.
bool SkipEscape(std::string_view& text) {
  if (!text.starts_with("\x1b[")) return false;
  size_t end = 2;
  while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
  text.remove_prefix(std::min(end + 1, text.size()));
  return true;
}

std::string CleanCell(std::string_view text) {
  std::string clean(text);
  for (char& c : clean) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\x1b') c = ' ';
  }
  return clean;
}

}  // namespace

int DisplayWidth(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    if (SkipEscape(text)) continue;
    const uint32_t point = TakeCodePoint(text);
    if (point < 0x20 || point == 0x7f || In(kZeroWidth, point)) continue;
    width += In(kDoubleWidth, point) ? 2 : 1;
  }
  return width;
}

std::string FormatTable(const Table& table) {
  std::vector<std::vector<std::string>> lines;
  if (!table.header.empty()) lines.push_back(table.header);
  lines.insert(lines.end(), table.rows.begin(), table.rows.end());
  std::vector<int> widths;
  for (auto& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (size_t i = 0; i < line.size(); ++i) {
      line[i] = CleanCell(line[i]);
      widths[i] = std::max(widths[i], DisplayWidth(line[i]));
    }
  }
  std::string out;
  for (const auto& line : lines) {
    std::string text;
    for (size_t i = 0; i < line.size(); ++i) {
      text += line[i];
      if (i + 1 < line.size()) text.append(widths[i] - DisplayWidth(line[i]) + 2, ' ');
    }
    const size_t last = text.find_last_not_of(' ');
    text.resize(last == std::string::npos ? 0 : last + 1);
    out += text + "\n";
  }
  return out;
}

}  // namespace muster::cli
