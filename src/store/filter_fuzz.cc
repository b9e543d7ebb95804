// libFuzzer: whatever the filter says, it is refused with a reason, or becomes SQL that SQLite
// takes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "store/database.h"
#include "store/filter.h"
#include "store/filter_sql.h"
#include "store/schema.h"

namespace {

muster::store::Database& EmptyDatabase() {
  static const auto database = [] {
    auto opened = muster::store::Database::Open(":memory:", muster::store::Database::Mode::kWriter);
    MUSTER_CHECK(opened && Migrate(**opened, muster::store::Migrations()));
    return std::move(*opened);
  }();
  return *database;
}

void CheckShape(const muster::store::FilterNode& node) {
  using Kind = muster::store::FilterNode::Kind;
  MUSTER_CHECK(node.kind != Kind::kNot || node.children.size() == 1);
  MUSTER_CHECK(node.kind != Kind::kOr || node.children.size() >= 2);
  MUSTER_CHECK(node.kind != Kind::kAnd || node.children.size() != 1);
  MUSTER_CHECK(node.kind != Kind::kCondition || node.children.empty());
  for (const auto& child : node.children) CheckShape(child);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto filter = muster::store::ParseFilter(text, "customJobs");
  if (!filter) {
    MUSTER_CHECK(filter.error().code == muster::Code::kInvalidArgument);
    MUSTER_CHECK(filter.error().message.starts_with("filter: "));
    return 0;
  }
  CheckShape(*filter);
  const auto query = ListSql(1, *filter, muster::store::ListPosition{1, "name"}, 101);
  auto statement = EmptyDatabase().Prepare(query.text);
  MUSTER_CHECK(statement.has_value());
  for (const auto& value : query.values) {
    if (const auto* number = std::get_if<int64_t>(&value)) statement->Bind(*number);
    if (const auto* bound = std::get_if<std::string>(&value)) {
      statement->Bind(std::string_view(*bound));
    }
  }
  const auto row = statement->Step();
  MUSTER_CHECK(row.has_value() && !*row);
  return 0;
}
