// gcloud's grammar of list and dict flags:
//
//   --args=--epochs=3,--lr=0.1                  a list, split at commas
//   --labels=team=vision,cost=research          a dict; each item is split at its first "="
//   --args=^;^--a=1,2;--b=3                     ^X^ in front: split at X instead (any length)
//
// A trailing delimiter is ignored and an empty text is an empty list, as in gcloud.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace muster::cli {

using Dict = std::map<std::string, std::string, std::less<>>;

// INVALID_ARGUMENT if the delimiter in ^…^ is empty.
Result<std::vector<std::string>> ParseListFlag(std::string_view text);

// INVALID_ARGUMENT for an item without "=", a key that comes twice, or one that is not among
// `valid_keys` (empty: every key is valid).
Result<Dict> ParseDictFlag(std::string_view text, std::span<const std::string_view> valid_keys);

// Splits at `delimiter`; an empty text has no parts. Empty parts are dropped.
std::vector<std::string> SplitNonEmpty(std::string_view text, char delimiter);

}  // namespace muster::cli
