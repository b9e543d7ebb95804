// Percent-encoding (RFC 3986) of paths and queries.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::server {

enum class PercentRule {
  kAll,        // every escape; the rule for one path segment
  kKeepSlash,  // every escape but %2F, which stays as written: for values of several segments
  kForm,       // every escape, and + means a space: queries
};

// Nothing if an escape is malformed ("%4", "%zz").
std::optional<std::string> PercentDecode(std::string_view text, PercentRule rule);

}  // namespace muster::server
