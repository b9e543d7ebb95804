// $(VAR) in the user's env, args and command.
#include <algorithm>
#include <unordered_map>

#include "job/environment.h"

namespace muster::job {
namespace {

// Values by name; the last of a name counts.
class Variables {
 public:
  explicit Variables(const EnvironmentList& environment) {
    values_.reserve(environment.size());
    for (const auto& [name, value] : environment) values_[name] = value;
  }

  const std::string_view* Find(std::string_view name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? nullptr : &found->second;
  }

 private:
  std::unordered_map<std::string_view, std::string_view> values_;  // into the environment
};

// What references may still add to the texts expanded with it.
struct Budget {
  size_t bytes = kExpandedBytesTotalMax;
};

std::string ExpandWith(std::string_view text, const Variables& variables, Budget& budget) {
  std::string out;
  out.reserve(text.size());
  while (true) {
    const size_t dollar = text.find('$');
    out += text.substr(0, dollar);
    if (dollar == std::string_view::npos) return out;
    text.remove_prefix(dollar);

    if (text.starts_with("$$")) {
      out += '$';
      text.remove_prefix(2);
      continue;
    }
    const size_t close = text.starts_with("$(") ? text.find(')') : std::string_view::npos;
    if (close == std::string_view::npos) {
      out += '$';
      text.remove_prefix(1);
      continue;
    }
    const std::string_view* value = variables.Find(text.substr(2, close - 2));
    const bool expand = value != nullptr && value->size() <= budget.bytes &&
                        out.size() + value->size() <= kExpandedBytesMax;
    if (expand) {
      out += *value;
      budget.bytes -= value->size();
    } else {
      out += text.substr(0, close + 1);
    }
    text.remove_prefix(close + 1);
  }
}

}  // namespace

std::string Expand(std::string_view text, const EnvironmentList& environment) {
  Budget budget;
  return ExpandWith(text, Variables(environment), budget);
}

std::vector<std::string> ExpandAll(const std::vector<std::string>& texts,
                                   const EnvironmentList& environment) {
  const Variables variables(environment);
  Budget budget;
  std::vector<std::string> expanded;
  expanded.reserve(texts.size());
  for (const std::string& text : texts) expanded.push_back(ExpandWith(text, variables, budget));
  return expanded;
}

EnvironmentList MergeEnvironment(EnvironmentList base, const EnvironmentList& user) {
  EnvironmentList merged;
  merged.reserve(base.size() + user.size());
  std::unordered_map<std::string, size_t> position;
  const auto set = [&](std::string name, std::string value) {
    const auto [at, is_new] = position.try_emplace(name, merged.size());
    if (is_new) {
      merged.emplace_back(std::move(name), std::move(value));
    } else {
      merged[at->second].second = std::move(value);
    }
  };
  for (auto& [name, value] : base) set(std::move(name), std::move(value));
  Budget budget;
  for (const auto& [name, value] : user) {
    set(name, ExpandWith(value, Variables(merged), budget));
  }
  return merged;
}

}  // namespace muster::job
