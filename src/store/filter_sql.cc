#include "store/filter_sql.h"

#include <algorithm>
#include <utility>

// A page must be quick among many jobs, so a list walks an index that holds the jobs in the list's
// order and stops when the page is full. Which index is chosen here, not left to SQLite, which has
// no statistics to choose by: a condition on one label, else one on the state, if every match must
// meet it; else the index by time.
//
// SQLite's parser has a stack of 100 entries and allows 1000 levels of expression. So the tree is
// written with few parentheses: negations are pushed down to the conditions, AND within OR needs
// none, and of several operands the deepest goes first, while the stack is still empty.

namespace muster::store {

namespace {

using Comparator = FilterCondition::Comparator;
using Kind = FilterNode::Kind;

// The pattern in the words of SQLite's GLOB, which is case-sensitive.
std::string GlobOf(const FilterPattern& pattern) {
  std::string glob;
  for (size_t i = 0; i < pattern.pieces.size(); ++i) {
    if (i > 0) glob += '*';
    for (const char c : pattern.pieces[i]) {
      if (c == '*' || c == '?' || c == '[') {
        glob += {'[', c, ']'};
      } else {
        glob += c;
      }
    }
  }
  return glob;
}

std::string_view TextColumn(FilterField field) {
  return field == FilterField::kName ? "r.name" : "r.display_name";
}

std::string_view TimeColumn(FilterField field) {
  return field == FilterField::kCreateTime ? "r.create_time" : "r.update_time";
}

std::string_view ComparatorSql(Comparator comparator) {
  switch (comparator) {
    case Comparator::kEqual:
      return "=";
    case Comparator::kLess:
      return "<";
    case Comparator::kLessEqual:
      return "<=";
    case Comparator::kGreater:
      return ">";
    case Comparator::kGreaterEqual:
      return ">=";
  }
  return "=";
}

int Height(const FilterNode& node) {
  int height = 0;
  for (const FilterNode& child : node.children) height = std::max(height, Height(child));
  return node.kind == Kind::kNot || node.kind == Kind::kCondition ? height : height + 1;
}

class Renderer {
 public:
  explicit Renderer(SqlQuery& query) : query_(query) {}

  void Render(const FilterNode& node, bool negated) {
    switch (node.kind) {
      case Kind::kNot:
        return Render(node.children.front(), !negated);
      case Kind::kCondition:
        return RenderCondition(node.condition, negated);
      case Kind::kAnd:
      case Kind::kOr:
        return RenderJoined(node, negated);
    }
  }

 private:
  static bool IsOr(const FilterNode& node, bool negated) {
    if (node.kind == Kind::kNot) return IsOr(node.children.front(), !negated);
    return node.kind == (negated ? Kind::kAnd : Kind::kOr);
  }

  void RenderJoined(const FilterNode& node, bool negated) {
    std::vector<const FilterNode*> children;
    children.reserve(node.children.size());
    for (const FilterNode& child : node.children) children.push_back(&child);
    std::ranges::sort(children, std::greater(),
                      [](const FilterNode* child) { return Height(*child); });
    const bool is_or = IsOr(node, negated);
    bool first = true;
    for (const FilterNode* child : children) {
      if (!std::exchange(first, false)) query_.text += is_or ? " OR " : " AND ";
      const bool group = !is_or && IsOr(*child, negated);
      if (group) query_.text += '(';
      Render(*child, negated);
      if (group) query_.text += ')';
    }
  }

  void RenderCondition(const FilterCondition& condition, bool negated) {
    if (negated) query_.text += "NOT ";
    switch (condition.field) {
      case FilterField::kDisplayName:
      case FilterField::kName:
        query_.text += TextColumn(condition.field);
        RenderPattern(condition.pattern);
        break;
      case FilterField::kState:
        query_.text += "r.state = ?";
        query_.values.emplace_back(condition.number);
        break;
      case FilterField::kCreateTime:
      case FilterField::kUpdateTime:
        query_.text += TimeColumn(condition.field);
        query_.text += ' ';
        query_.text += ComparatorSql(condition.comparator);
        query_.text += " ?";
        query_.values.emplace_back(condition.number);
        break;
      case FilterField::kLabel:
        query_.text += "EXISTS (SELECT 1 FROM labels WHERE resource = r.id AND key = ?";
        query_.values.emplace_back(condition.label_key);
        if (!condition.pattern.IsAnything()) {
          query_.text += " AND value";
          RenderPattern(condition.pattern);
        }
        query_.text += ')';
        break;
    }
  }

  void RenderPattern(const FilterPattern& pattern) {
    query_.text += pattern.IsPlain() ? " = ?" : " GLOB ?";
    query_.values.emplace_back(pattern.IsPlain() ? pattern.pieces.front() : GlobOf(pattern));
  }

  SqlQuery& query_;
};

// The index to walk, by what every match must meet: 3 a label's value, 2 a state, 1 a label.
int Usefulness(const FilterNode& node) {
  if (node.kind != Kind::kCondition) return 0;
  if (node.condition.field == FilterField::kState) return 2;
  if (node.condition.field != FilterField::kLabel) return 0;
  return node.condition.pattern.IsPlain() ? 3 : 1;
}

const FilterCondition* BestCondition(const FilterNode& filter) {
  const FilterNode* best = &filter;
  if (filter.kind == Kind::kAnd) {
    for (const FilterNode& child : filter.children) {
      if (Usefulness(child) > Usefulness(*best)) best = &child;
    }
  }
  return Usefulness(*best) > 0 ? &best->condition : nullptr;
}

}  // namespace

SqlQuery ListSql(int64_t collection, const FilterNode& filter,
                 const std::optional<ListPosition>& after, int64_t limit) {
  SqlQuery query;
  query.text =
      "SELECT r.id, r.name, r.display_name, r.state, r.create_time, r.update_time, r.body FROM ";
  query.values.emplace_back(collection);
  const FilterCondition* walked = BestCondition(filter);
  const bool by_label = walked != nullptr && walked->field == FilterField::kLabel;
  if (by_label) {
    const bool by_value = walked->pattern.IsPlain();
    query.text +=
        by_value ? "labels w INDEXED BY labels_by_value" : "labels w INDEXED BY labels_by_key";
    query.text +=
        " CROSS JOIN resources r ON r.id = w.resource WHERE w.collection = ? AND w.key = ?";
    query.values.emplace_back(walked->label_key);
    if (by_value) {
      query.text += " AND w.value = ?";
      query.values.emplace_back(walked->pattern.pieces.front());
    }
  } else if (walked != nullptr) {
    query.text +=
        "resources r INDEXED BY resources_by_state WHERE r.collection = ? AND r.state = ?";
    query.values.emplace_back(walked->number);
  } else {
    query.text += "resources r INDEXED BY resources_by_time WHERE r.collection = ?";
  }
  const std::string row = by_label ? "w." : "r.";
  if (after) {
    query.text += " AND (" + row + "create_time, " + row + "name) < (?, ?)";
    query.values.emplace_back(after->create_time_micros);
    query.values.emplace_back(after->name);
  }
  const bool is_everything = filter.kind == Kind::kAnd && filter.children.empty();
  if (!is_everything) {
    query.text += " AND (";
    Renderer(query).Render(filter, false);
    query.text += ')';
  }
  query.text += " ORDER BY " + row + "create_time DESC, " + row + "name DESC LIMIT ?";
  query.values.emplace_back(limit);
  return query;
}

}  // namespace muster::store
