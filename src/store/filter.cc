#include "store/filter.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "base/time.h"

// A recursive-descent parser straight over the characters: what a value may look like depends on
// where it stands (an unquoted time has colons and dashes), so there is no separate lexer.

namespace muster::store {

namespace {

using Comparator = FilterCondition::Comparator;

struct FieldName {
  std::string_view snake;
  std::string_view camel;
  FilterField field;
};
constexpr FieldName kFieldNames[] = {
    {"display_name", "displayName", FilterField::kDisplayName},
    {"name", "name", FilterField::kName},
    {"state", "state", FilterField::kState},
    {"create_time", "createTime", FilterField::kCreateTime},
    {"update_time", "updateTime", FilterField::kUpdateTime},
    {"labels", "labels", FilterField::kLabel},
};
constexpr std::string_view kKnownFields =
    "display_name, name, state, create_time, update_time and labels.KEY";

// In the order of google.cloud.aiplatform.v1.JobState's and PipelineState's values, which agree.
constexpr std::string_view kStateNames[] = {
    "UNSPECIFIED", "QUEUED",    "PENDING", "RUNNING", "SUCCEEDED", "FAILED",
    "CANCELLING",  "CANCELLED", "PAUSED",  "EXPIRED", "UPDATING",  "PARTIALLY_SUCCEEDED"};
constexpr size_t kPipelineStates = 9;

std::string_view StatePrefix(std::string_view kind) {
  return kind == "trainingPipelines" ? "PIPELINE_STATE_" : "JOB_STATE_";
}

std::span<const std::string_view> StateNames(std::string_view kind) {
  const std::span<const std::string_view> all(kStateNames);
  return kind == "trainingPipelines" ? all.first(kPipelineStates) : all;
}

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// May stand in an unquoted name or key.
bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || static_cast<unsigned char>(c) >= 0x80;
}

// May stand in an unquoted value.
bool IsValueChar(char c) {
  return static_cast<unsigned char>(c) > ' ' && c != 0x7f &&
         std::string_view("()\"'=<>!,").find(c) == std::string_view::npos;
}

enum class Operator { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kHas };

struct OperatorName {
  std::string_view text;
  Operator op;
};
// Longer ones first.
constexpr OperatorName kOperators[] = {
    {"<=", Operator::kLessEqual}, {">=", Operator::kGreaterEqual}, {"!=", Operator::kNotEqual},
    {"<", Operator::kLess},       {">", Operator::kGreater},       {"=", Operator::kEqual},
    {":", Operator::kHas}};

std::string_view OperatorText(Operator op) {
  return std::ranges::find(kOperators, op, &OperatorName::op)->text;
}

bool ContinuesCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// A token as messages show it: not too long, and no multi-byte character cut in two.
std::string Shown(std::string_view token) {
  size_t bytes = 60;
  if (token.size() <= bytes) return std::string(token);
  while (bytes > 0 && ContinuesCharacter(token[bytes])) --bytes;
  return fmt::format("{}…", token.substr(0, bytes));
}

// What stands left of a comparator.
struct Member {
  FilterField field = FilterField::kDisplayName;
  std::string_view written;
  std::optional<std::string> label_key;  // absent in "labels:KEY"
};

// A value as written; `pieces` as in FilterPattern.
struct Value {
  size_t begin = 0;
  std::string_view written;
  FilterPattern pattern;
};

FilterNode Negated(FilterNode node) {
  FilterNode negated{.kind = FilterNode::Kind::kNot, .children = {}, .condition = {}};
  negated.children.push_back(std::move(node));
  return negated;
}

// Children of one kind joined; a single one stays as it is.
FilterNode Joined(FilterNode::Kind kind, std::vector<FilterNode> children) {
  if (children.size() == 1) return std::move(children.front());
  return FilterNode{.kind = kind, .children = std::move(children), .condition = {}};
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view kind) : text_(text), kind_(kind) {}

  Result<FilterNode> ParseWhole() {
    if (text_.size() > kFilterBytesMax) {
      return Fail(Code::kInvalidArgument, "filter: it has {} bytes; at most {} are read",
                  text_.size(), kFilterBytesMax);
    }
    SkipSpace();
    if (AtEnd()) return FilterNode{};
    MUSTER_ASSIGN(FilterNode node, ParseExpression(nullptr));
    if (!AtEnd()) return Unexpected("AND, OR or the end of the filter");
    return node;
  }

 private:
  // Inside "field = ( … )" the leaves are values, each compared with the field; else, conditions.
  struct Comparison {
    Member member;
    Operator op;
  };

  // expression: sequence { AND sequence }, where a sequence is factor { factor }
  Result<FilterNode> ParseExpression(const Comparison* of) {
    std::vector<FilterNode> factors;
    do {
      do {
        MUSTER_ASSIGN(FilterNode factor, ParseFactor(of));
        factors.push_back(std::move(factor));
      } while (AtTerm());
    } while (TakeKeyword("AND"));
    return Joined(FilterNode::Kind::kAnd, std::move(factors));
  }

  // factor: term { OR term }
  Result<FilterNode> ParseFactor(const Comparison* of) {
    std::vector<FilterNode> terms;
    do {
      MUSTER_ASSIGN(FilterNode term, ParseTerm(of));
      terms.push_back(std::move(term));
    } while (TakeKeyword("OR"));
    return Joined(FilterNode::Kind::kOr, std::move(terms));
  }

  // term: [ NOT | "-" ] ( "(" expression ")" | condition )
  Result<FilterNode> ParseTerm(const Comparison* of) {
    const bool negated = TakeKeyword("NOT") || (of == nullptr && TakeChar('-'));
    SkipSpace();
    Result<FilterNode> node = TakeChar('(')   ? ParseGroup(of)
                              : of != nullptr ? ParseValueOf(*of)
                                              : ParseCondition();
    if (node && negated) return Negated(std::move(*node));
    return node;
  }

  // The opening parenthesis is taken.
  Result<FilterNode> ParseGroup(const Comparison* of) {
    if (++nesting_ > kFilterNestingMax) {
      return FailAt(position_ - 1, "parentheses nest deeper than {} levels", kFilterNestingMax);
    }
    SkipSpace();
    MUSTER_ASSIGN(FilterNode node, ParseExpression(of));
    if (!TakeChar(')')) return Unexpected("')'");
    --nesting_;
    SkipSpace();
    return node;
  }

  Result<FilterNode> ParseCondition() {
    Comparison comparison;
    MUSTER_ASSIGN(comparison.member, ParseMember());
    SkipSpace();
    const size_t at = position_;
    MUSTER_ASSIGN(comparison.op, ParseOperator(comparison.member));
    MUSTER_TRY(CheckOperator(comparison, at));
    SkipSpace();
    const size_t group = position_;
    if (!TakeChar('(')) return ParseValueOf(comparison);
    if (comparison.op != Operator::kEqual && comparison.op != Operator::kHas) {
      return FailAt(group, "'{}' takes one value; only '=' and ':' take a group of them",
                    OperatorText(comparison.op));
    }
    return ParseGroup(&comparison);
  }

  // display_name, labels.KEY, labels."KEY", or labels alone
  Result<Member> ParseMember() {
    const size_t begin = position_;
    const std::string_view name = TakeWhile(IsNameChar);
    if (name.empty()) return Unexpected("a field");
    if (name == "AND" || name == "OR" || name == "NOT") {
      position_ = begin;
      return Unexpected("a field");
    }
    const auto* known = std::ranges::find_if(
        kFieldNames, [&](const FieldName& f) { return f.snake == name || f.camel == name; });
    if (known == std::end(kFieldNames)) {
      const bool lower_case = name == "and" || name == "or" || name == "not";
      return FailAt(begin, "unknown field '{}'; {}", Shown(name),
                    lower_case ? std::string("write AND, OR and NOT in capitals")
                               : fmt::format("the fields are {}", kKnownFields));
    }
    Member member{.field = known->field, .written = name, .label_key = {}};
    if (!TakeChar('.')) return member;
    if (member.field != FilterField::kLabel) {
      return FailAt(begin, "'{}' has no fields of its own; the fields are {}", name, kKnownFields);
    }
    MUSTER_ASSIGN(member.label_key, ParseLabelKey());
    if (!AtEnd() && text_[position_] == '.') {
      return FailAt(position_, "a label has no fields of its own; quote a key that has dots in it");
    }
    return member;
  }

  Result<std::string> ParseLabelKey() {
    if (!AtEnd() && (text_[position_] == '"' || text_[position_] == '\'')) {
      MUSTER_ASSIGN(const FilterPattern key, ParseQuoted());
      if (!key.IsPlain()) {
        return FailAt(position_, "a label's key cannot have wildcards; write \\* for a star");
      }
      return key.pieces.front();
    }
    const std::string_view key = TakeWhile(IsNameChar);
    if (key.empty()) return Unexpected("a label's key");
    return std::string(key);
  }

  Result<Operator> ParseOperator(const Member& member) {
    for (const OperatorName& candidate : kOperators) {
      if (!text_.substr(position_).starts_with(candidate.text)) continue;
      position_ += candidate.text.size();
      return candidate.op;
    }
    return Unexpected(fmt::format("a comparison such as = behind '{}'", member.written));
  }

  // Which operators a field supports.
  Status CheckOperator(const Comparison& comparison, size_t at) const {
    const Operator op = comparison.op;
    const bool ordering =
        op != Operator::kEqual && op != Operator::kNotEqual && op != Operator::kHas;
    const auto refuse = [&](std::string_view supported) -> Status {
      return FailAt(at, "'{}' does not support '{}', only {}", comparison.member.written,
                    OperatorText(op), supported);
    };
    switch (comparison.member.field) {
      case FilterField::kDisplayName:
      case FilterField::kName:
        return ordering ? refuse("=, != and :") : Status();
      case FilterField::kState:
        return ordering || op == Operator::kHas ? refuse("= and !=") : Status();
      case FilterField::kCreateTime:
      case FilterField::kUpdateTime:
        return op == Operator::kHas ? refuse("=, !=, <, <=, > and >=") : Status();
      case FilterField::kLabel:
        if (!comparison.member.label_key && op != Operator::kHas) {
          return FailAt(at, "labels are compared one by one: labels.KEY=VALUE or labels:KEY");
        }
        return ordering ? refuse("=, != and :") : Status();
    }
    return {};
  }

  Result<FilterNode> ParseValueOf(const Comparison& comparison) {
    if (++conditions_ > kFilterConditionsMax) {
      return FailAt(position_, "it has more than {} conditions", kFilterConditionsMax);
    }
    MUSTER_ASSIGN(const Value value, ParseValue());
    SkipSpace();
    FilterNode node{.kind = FilterNode::Kind::kCondition, .children = {}, .condition = {}};
    FilterCondition& condition = node.condition;
    condition.field = comparison.member.field;
    switch (condition.field) {
      case FilterField::kDisplayName:
      case FilterField::kName:
        condition.pattern = value.pattern;
        // "contains", where nothing says otherwise
        if (comparison.op == Operator::kHas && value.pattern.IsPlain()) {
          const std::string& text = value.pattern.pieces.front();
          condition.pattern.pieces = text.empty() ? std::vector<std::string>{"", ""}
                                                  : std::vector<std::string>{"", text, ""};
        }
        break;
      case FilterField::kState: {
        MUSTER_ASSIGN(condition.number, StateNumber(value));
        break;
      }
      case FilterField::kCreateTime:
      case FilterField::kUpdateTime: {
        MUSTER_TRY(SetTime(comparison.op, value, condition));
        break;
      }
      case FilterField::kLabel: {
        MUSTER_TRY(SetLabel(comparison.member, value, condition));
        break;
      }
    }
    return comparison.op == Operator::kNotEqual ? Negated(std::move(node)) : std::move(node);
  }

  Result<int64_t> StateNumber(const Value& value) const {
    const std::string_view prefix = StatePrefix(kind_);
    std::string known;
    const auto names = StateNames(kind_);
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string full = fmt::format("{}{}", prefix, names[i]);
      const std::string& written = value.pattern.pieces.front();
      if (value.pattern.IsPlain() && (written == full || written == names[i])) return int64_t(i);
      known += (i == 0 ? "" : ", ") + full;
    }
    return FailAt(value.begin, "unknown state {}; the states are {}", Shown(value.written), known);
  }

  Status SetTime(Operator op, const Value& value, FilterCondition& condition) const {
    Result<Time> time = Fail(Code::kInvalidArgument, "a time cannot have wildcards");
    if (value.pattern.IsPlain()) time = ParseRfc3339(value.pattern.pieces.front());
    if (!time) return FailAt(value.begin, "{}", time.error().message);
    condition.number = ToMicros(*time);
    switch (op) {
      case Operator::kLess:
        condition.comparator = Comparator::kLess;
        break;
      case Operator::kLessEqual:
        condition.comparator = Comparator::kLessEqual;
        break;
      case Operator::kGreater:
        condition.comparator = Comparator::kGreater;
        break;
      case Operator::kGreaterEqual:
        condition.comparator = Comparator::kGreaterEqual;
        break;
      case Operator::kEqual:
      case Operator::kNotEqual:
      case Operator::kHas:
        condition.comparator = Comparator::kEqual;
        break;
    }
    return {};
  }

  Status SetLabel(const Member& member, const Value& value, FilterCondition& condition) const {
    if (member.label_key) {
      condition.label_key = *member.label_key;
      condition.pattern = value.pattern;
      return {};
    }
    if (!value.pattern.IsPlain()) {
      return FailAt(value.begin, "a label's key cannot have wildcards; write \\* for a star");
    }
    condition.label_key = value.pattern.pieces.front();
    condition.pattern.pieces = {"", ""};
    return {};
  }

  Result<Value> ParseValue() {
    Value value{.begin = position_, .written = {}, .pattern = {}};
    if (!AtEnd() && (text_[position_] == '"' || text_[position_] == '\'')) {
      MUSTER_ASSIGN(value.pattern, ParseQuoted());
    } else {
      MUSTER_ASSIGN(value.pattern, ParseBare());
    }
    value.written = text_.substr(value.begin, position_ - value.begin);
    return value;
  }

  Result<FilterPattern> ParseBare() {
    const size_t begin = position_;
    const std::string_view word = TakeWhile(IsValueChar);
    const bool keyword = word == "AND" || word == "OR" || word == "NOT";
    if (word.empty() || keyword) {
      position_ = begin;
      return Unexpected(keyword ? "a value (a quoted one, if it is meant as text)" : "a value");
    }
    if (!AtEnd() && !IsSpace(text_[position_]) && text_[position_] != ')') {
      return Unexpected(
          fmt::format("a space behind '{}'; quote a value that has such characters", Shown(word)));
    }
    return PatternOf(word, begin);
  }

  Result<FilterPattern> ParseQuoted() {
    const size_t begin = position_;
    const char quote = text_[position_++];
    for (size_t at = position_; at < text_.size(); ++at) {
      if (text_[at] == '\\') {
        ++at;
      } else if (text_[at] == quote) {
        const std::string_view inside = text_.substr(position_, at - position_);
        const size_t inside_begin = position_;
        position_ = at + 1;
        return PatternOf(inside, inside_begin);
      }
    }
    return FailAt(begin, "the quote {} is never closed", quote);
  }

  // Takes a value apart at its stars. A backslash makes the next character a plain one.
  Result<FilterPattern> PatternOf(std::string_view written, size_t begin) const {
    FilterPattern pattern{.pieces = {""}};
    for (size_t i = 0; i < written.size(); ++i) {
      if (written[i] == '\0') return FailAt(begin + i, "a value cannot have NUL characters");
      if (written[i] == '*') {
        const bool run_of_stars = pattern.pieces.size() > 1 && pattern.pieces.back().empty();
        if (!run_of_stars) pattern.pieces.emplace_back();
        continue;
      }
      if (written[i] == '\\') {
        if (i + 1 == written.size()) {
          return FailAt(begin + i, "nothing follows the backslash; write \\\\ for one");
        }
        ++i;
      }
      if (written[i] == '\0') return FailAt(begin + i, "a value cannot have NUL characters");
      pattern.pieces.back() += written[i];
    }
    return pattern;
  }

  bool AtEnd() const { return position_ == text_.size(); }

  // Something other than AND, OR, ")" or the end: another factor, joined by juxtaposition.
  bool AtTerm() const {
    return !AtEnd() && text_[position_] != ')' && !AtKeyword("AND") && !AtKeyword("OR");
  }

  bool AtKeyword(std::string_view keyword) const {
    if (!text_.substr(position_).starts_with(keyword)) return false;
    const size_t behind = position_ + keyword.size();
    return behind == text_.size() || IsSpace(text_[behind]) || text_[behind] == '(' ||
           text_[behind] == ')';
  }

  bool TakeKeyword(std::string_view keyword) {
    if (!AtKeyword(keyword)) return false;
    position_ += keyword.size();
    SkipSpace();
    return true;
  }

  bool TakeChar(char c) {
    if (AtEnd() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  std::string_view TakeWhile(bool (*accepts)(char)) {
    const size_t begin = position_;
    while (!AtEnd() && accepts(text_[position_])) ++position_;
    return text_.substr(begin, position_ - begin);
  }

  void SkipSpace() { TakeWhile(IsSpace); }

  // "filter: at character 7: …"; characters count from 1, a multi-byte one once.
  template <typename... Args>
  std::unexpected<Error> FailAt(size_t position, fmt::format_string<Args...> format,
                                Args&&... args) const {
    const std::string_view before = text_.substr(0, position);
    const auto characters =
        std::ranges::count_if(before, [](char c) { return !ContinuesCharacter(c); });
    return Fail(Code::kInvalidArgument, "filter: at character {}: {}", characters + 1,
                fmt::format(format, std::forward<Args>(args)...));
  }

  // "expected ⟨what⟩, found ⟨the token here⟩"
  std::unexpected<Error> Unexpected(std::string_view expected) const {
    if (AtEnd()) return FailAt(position_, "expected {}, found the end of the filter", expected);
    const std::string_view rest = text_.substr(position_);
    const size_t length = size_t(std::ranges::find_if_not(rest, IsValueChar) - rest.begin());
    return FailAt(position_, "expected {}, found '{}'", expected,
                  Shown(rest.substr(0, std::max<size_t>(1, length))));
  }

  const std::string_view text_;
  const std::string_view kind_;
  size_t position_ = 0;
  int nesting_ = 0;
  int conditions_ = 0;
};

}  // namespace

Result<FilterNode> ParseFilter(std::string_view text, std::string_view kind) {
  return Parser(text, kind).ParseWhole();
}

}  // namespace muster::store
