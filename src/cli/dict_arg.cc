#include "cli/dict_arg.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace muster::cli {
namespace {

constexpr std::string_view kEscapingHint =
    "To use another delimiter than a comma, put it between two carets in front: ^;^a=1;b=2";

}  // namespace

Result<std::vector<std::string>> ParseListFlag(std::string_view text) {
  std::string_view delimiter = ",";
  if (text.starts_with('^')) {
    const size_t close = text.find('^', 1);
    if (close == 1) return Fail(Code::kInvalidArgument, "Invalid delimiter. {}", kEscapingHint);
    if (close != std::string_view::npos) {
      delimiter = text.substr(1, close - 1);
      text.remove_prefix(close + 1);
    }
  }
  std::vector<std::string> items;
  while (!text.empty()) {
    const size_t end = text.find(delimiter);
    items.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + delimiter.size());
  }
  return items;
}

Result<Dict> ParseDictFlag(std::string_view text, std::span<const std::string_view> valid_keys) {
  MUSTER_ASSIGN(const std::vector<std::string> items, ParseListFlag(text));
  Dict dict;
  for (const std::string& item : items) {
    const size_t equals = item.find('=');
    if (equals == std::string::npos) {
      return Fail(Code::kInvalidArgument, "Bad syntax for dict arg: [{}]. Expected KEY=VALUE. {}",
                  item, kEscapingHint);
    }
    std::string key = item.substr(0, equals);
    if (!valid_keys.empty() && std::ranges::find(valid_keys, key) == valid_keys.end()) {
      return Fail(Code::kInvalidArgument, "valid keys are [{}]; received: {}",
                  fmt::join(valid_keys, ", "), key);
    }
    if (!dict.try_emplace(key, item.substr(equals + 1)).second) {
      return Fail(Code::kInvalidArgument, "\"{}\" cannot be specified multiple times", key);
    }
  }
  return dict;
}

std::vector<std::string> SplitNonEmpty(std::string_view text, char delimiter) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = text.find(delimiter);
    if (end != 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parts;
}

}  // namespace muster::cli
