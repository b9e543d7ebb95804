// A page of a list as one SQL statement over the tables of schema.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "store/filter.h"

namespace muster::store {

using SqlValue = std::variant<int64_t, std::string>;

// All that users wrote is in the values, never in the text.
struct SqlQuery {
  std::string text;
  std::vector<SqlValue> values;  // of its question marks, in order
};

// Where a page begins: behind this resource.
struct ListPosition {
  int64_t create_time_micros = 0;
  std::string name;

  bool operator==(const ListPosition&) const = default;
};

// Yields (id, name, display_name, state, create_time, update_time, body), newest first.
SqlQuery ListSql(int64_t collection, const FilterNode& filter,
                 const std::optional<ListPosition>& after, int64_t limit);

}  // namespace muster::store
