// The list methods' filter language: AIP-160's grammar over the few fields a list knows.
//
//   display_name = "run" · != · : "run*"      * stands for any text, \* for a star; ":" without a
//   name                                      star means "contains"
//   state = "JOB_STATE_SUCCEEDED" · !=        the names of JobState, also without JOB_STATE_,
//                                             case-sensitive
//   create_time >= "2026-11-20T00:00:00Z"     all six comparisons, RFC 3339; also update_time
//   labels.KEY = value · != · :               labels.KEY:* and labels:KEY mean "has this label";
//                                             labels.KEY != v also holds without the label
//
// Conditions are joined by AND, OR and NOT (or "-"), and grouped by parentheses; two conditions
// side by side are joined by AND. As AIP-160 demands, **OR binds tighter than AND**: "a AND b OR c"
// is "a AND (b OR c)". Fields may be written in snake_case or camelCase; values may be quoted
// ('…' or "…", with backslash escapes) or bare; "state = (A OR B)" compares with either.
//
// Pure: no SQL here (filter_sql.h), no clock, no I/O.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace muster::store {

// Beyond any of these a filter is refused.
constexpr size_t kFilterBytesMax = 10'000;
constexpr int kFilterNestingMax = 50;
constexpr int kFilterConditionsMax = 500;

enum class FilterField { kDisplayName, kName, kState, kCreateTime, kUpdateTime, kLabel };

// A text with wildcards: its literal pieces, with any text allowed between two of them. "run*" is
// {"run", ""}; a single piece is a plain text.
struct FilterPattern {
  std::vector<std::string> pieces;

  bool IsPlain() const { return pieces.size() == 1; }
  bool IsAnything() const { return pieces == std::vector<std::string>{"", ""}; }
  bool operator==(const FilterPattern&) const = default;
};

// field ⟨comparator⟩ value. "!=" is the negation of kEqual, ":" a kEqual with a wildcard.
struct FilterCondition {
  enum class Comparator { kEqual, kLess, kLessEqual, kGreater, kGreaterEqual };

  FilterField field = FilterField::kDisplayName;
  Comparator comparator = Comparator::kEqual;  // kEqual but for times
  std::string label_key;                       // kLabel
  FilterPattern pattern;                       // kDisplayName, kName, kLabel
  int64_t number = 0;                          // kState: its value; times: microseconds

  bool operator==(const FilterCondition&) const = default;
};

struct FilterNode {
  enum class Kind { kAnd, kOr, kNot, kCondition };

  Kind kind = Kind::kAnd;            // an empty kAnd is true: the empty filter
  std::vector<FilterNode> children;  // kAnd, kOr: any number but one; kNot: one
  FilterCondition condition;         // kCondition

  bool operator==(const FilterNode&) const = default;
};

// `kind` is the collection listed, "customJobs" and so on: it decides how states are called.
// INVALID_ARGUMENT says where the text goes wrong, and what would be understood.
Result<FilterNode> ParseFilter(std::string_view text, std::string_view kind);

}  // namespace muster::store
