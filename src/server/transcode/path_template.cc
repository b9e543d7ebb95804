#include "server/transcode/path_template.h"

#include "server/transcode/percent.h"

namespace muster::server {

std::optional<SplitPath> SplitUrlPath(std::string_view path) {
  if (path.empty() || path.front() != '/') return std::nullopt;
  SplitPath split;
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const std::string_view segment = path.substr(0, path.find('/'));
    if (segment.empty()) return std::nullopt;
    split.segments.push_back(segment);
    path.remove_prefix(segment.size());
  }
  return split;
}

class PathTemplate::Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), rest_(text) {}

  Result<PathTemplate> Parse() {
    if (!Take('/')) return Bad("it must begin with '/'");
    MUSTER_TRY(ParseSegments(/*in_variable=*/false));
    if (Take(':')) {
      out_.verb_ = std::string(rest_);
      rest_ = {};
      if (out_.verb_.empty() || out_.verb_.find_first_of("/{}*:") != std::string::npos) {
        return Bad("its verb is not a plain word");
      }
    }
    if (!rest_.empty()) return Bad("it has an unexpected character");
    return std::move(out_);
  }

 private:
  std::unexpected<Error> Bad(std::string_view why) const {
    return Fail(Code::kInvalidArgument, "path template '{}': {}, at position {}", text_, why,
                text_.size() - rest_.size());
  }

  bool Take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::string_view TakeWord(std::string_view terminators) {
    const std::string_view word = rest_.substr(0, rest_.find_first_of(terminators));
    rest_.remove_prefix(word.size());
    return word;
  }

  Status ParseSegments(bool in_variable) {
    do {
      MUSTER_TRY(ParseSegment(in_variable));
    } while (Take('/'));
    return {};
  }

  Status ParseSegment(bool in_variable) {
    if (Take('{')) {
      if (in_variable) return Bad("a variable stands within a variable");
      return ParseVariable();
    }
    if (Take('*')) {
      if (!Take('*')) {
        out_.segments_.push_back({Segment::Kind::kOne, ""});
        return {};
      }
      if (out_.many_) return Bad("** stands twice");
      out_.many_ = out_.segments_.size();
      out_.segments_.push_back({Segment::Kind::kMany, ""});
      return {};
    }
    const std::string_view literal = TakeWord("/{}*:=");
    if (literal.empty()) return Bad("a segment is empty");
    out_.segments_.push_back({Segment::Kind::kLiteral, std::string(literal)});
    return {};
  }

  Status ParseVariable() {
    Variable variable;
    variable.field_path = std::string(TakeWord("/{}*:="));
    if (variable.field_path.empty()) return Bad("a variable has no name");
    variable.begin = out_.segments_.size();
    if (Take('=')) {
      MUSTER_TRY(ParseSegments(/*in_variable=*/true));
    } else {
      out_.segments_.push_back({Segment::Kind::kOne, ""});
    }
    variable.end = out_.segments_.size();
    if (!Take('}')) return Bad("a variable has no closing brace");
    out_.variables_.push_back(std::move(variable));
    return {};
  }

  const std::string_view text_;
  std::string_view rest_;
  PathTemplate out_;
};

Result<PathTemplate> PathTemplate::Parse(std::string_view text) { return Parser(text).Parse(); }

std::optional<std::vector<PathTemplate::Binding>> PathTemplate::Match(const SplitPath& path) const {
  std::vector<std::string_view> parts = path.segments;
  if (!verb_.empty()) {
    if (parts.empty()) return std::nullopt;
    std::string_view& last = parts.back();
    if (last.size() <= verb_.size() + 1 || !last.ends_with(verb_) ||
        last[last.size() - verb_.size() - 1] != ':') {
      return std::nullopt;
    }
    last.remove_suffix(verb_.size() + 1);
  }

  // How many parts "**" takes; without one, the counts must agree.
  const size_t fixed = segments_.size() - (many_ ? 1 : 0);
  if (parts.size() < fixed || (!many_ && parts.size() != fixed)) return std::nullopt;
  const size_t many_parts = parts.size() - fixed;
  const auto first_part = [&](size_t segment) {
    return many_ && segment > *many_ ? segment - 1 + many_parts : segment;
  };

  for (size_t i = 0; i < segments_.size(); ++i) {
    if (segments_[i].kind != Segment::Kind::kLiteral) continue;
    const std::string_view part = parts[first_part(i)];
    if (part == segments_[i].literal) continue;
    if (part.find('%') == std::string_view::npos) return std::nullopt;
    if (PercentDecode(part, PercentRule::kAll) != segments_[i].literal) return std::nullopt;
  }

  std::vector<Binding> bindings;
  for (const Variable& variable : variables_) {
    const size_t begin = first_part(variable.begin);
    const size_t end = first_part(variable.end);
    const bool single = variable.end - variable.begin == 1 && many_ != variable.begin;
    Binding binding{variable.field_path, ""};
    for (size_t i = begin; i < end; ++i) {
      auto part = PercentDecode(parts[i], single ? PercentRule::kAll : PercentRule::kKeepSlash);
      if (!part) return std::nullopt;
      if (i > begin) binding.value += '/';
      binding.value += *part;
    }
    bindings.push_back(std::move(binding));
  }
  return bindings;
}

}  // namespace muster::server
