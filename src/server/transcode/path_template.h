// URL path templates as google.api.http annotations write them:
//
//   /v1/{parent=projects/*/locations/*}/customJobs      /v1/{name=operations/**}:cancel
//
//   Template = "/" Segments [ ":" verb ]      Segment  = "*" | "**" | literal | Variable
//   Segments = Segment { "/" Segment }        Variable = "{" field.path [ "=" Segments ] "}"
//
// "*" is one segment that is not empty. "**" is any number of them, and may stand once, anywhere
// (the annotations' rules allow it only at the end; operations' names need it in the middle).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace muster::server {

// A path's segments, still percent-encoded: views into the path.
struct SplitPath {
  std::vector<std::string_view> segments;
};
// Nothing if the path does not begin with "/" or has an empty segment.
std::optional<SplitPath> SplitUrlPath(std::string_view path);

class PathTemplate {
 public:
  struct Binding {
    std::string field_path;  // "name", "custom_job.name"
    std::string value;       // decoded

    bool operator==(const Binding&) const = default;
  };

  // INVALID_ARGUMENT names what is wrong with the template.
  static Result<PathTemplate> Parse(std::string_view text);

  // Nothing if the path is another one, or an escape in it is malformed. A variable of one segment
  // is decoded wholly; in longer ones %2F stays, so that slashes keep their meaning.
  std::optional<std::vector<Binding>> Match(const SplitPath& path) const;

  const std::string& verb() const { return verb_; }

 private:
  struct Segment {
    enum class Kind { kLiteral, kOne, kMany } kind = Kind::kLiteral;
    std::string literal;
  };
  struct Variable {
    std::string field_path;
    size_t begin = 0;  // of segments_
    size_t end = 0;
  };
  class Parser;

  std::vector<Segment> segments_;
  std::vector<Variable> variables_;
  std::string verb_;
  std::optional<size_t> many_;  // index of "**"
};

}  // namespace muster::server
