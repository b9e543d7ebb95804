// Tables of text for a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::cli {

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  // short rows are filled with empty cells
};

// Columns as wide as their widest cell, two spaces apart, no spaces at line ends. Colour sequences
// in cells take no room. Newlines and other control characters in cells become spaces.
std::string FormatTable(const Table& table);

// Columns a terminal needs for UTF-8 text: escape sequences and combining marks count 0, wide East
// Asian characters 2.
int DisplayWidth(std::string_view text);

}  // namespace muster::cli
