// The script holds two tables made from the registry: which words lead from one place in the tree
// of commands to the next, and what may follow at each place.
#include "cli/completion.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace muster::cli {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kBegin =
    R"(# bash completion for muster: source <(muster completion bash)

_muster() {
  local word path='' i candidates=''
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  # Bash splits words at "=": --flag = value.
  [[ $current == '=' ]] && current=''
  [[ $previous == '=' && COMP_CWORD -ge 2 ]] && previous=${COMP_WORDS[COMP_CWORD-2]}
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    [[ $word == '--' ]] && return
    case "$path $word" in
      ' ai') ;;
)";

constexpr std::string_view kMiddle = R"(    esac
  done
  case "$previous" in
    --config) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --format) COMPREPLY=($(compgen -W 'json yaml' -- "$current")); return ;;
  esac
  case "$path" in
)";

constexpr std::string_view kEnd = R"(  esac
  case "$path" in
    'custom-jobs describe' | 'custom-jobs cancel' | 'custom-jobs delete' | 'custom-jobs stream-logs')
      if [[ $current != -* ]]; then
        candidates=$(muster custom-jobs list --limit=50 --format='value(name.basename())' 2>/dev/null)
      fi ;;
    run)
      if [[ $current != -* ]]; then
        COMPREPLY=($(compgen -c -f -- "$current"))
        return
      fi ;;
  esac
  COMPREPLY=($(compgen -W "$candidates" -- "$current"))
}

complete -o default -F _muster muster
)";

// Every place in the tree but its root: {"custom-jobs"}, {"custom-jobs", "create"}, …
std::vector<Words> PlacesOf(const Registry& registry) {
  std::vector<Words> places;
  for (const auto& command : registry.commands()) {
    Words place;
    for (const std::string& word : command->words) {
      place.push_back(word);
      if (std::ranges::find(places, place) == places.end()) places.push_back(place);
    }
  }
  return places;
}

// What may follow at a place: a command's flags, or a group's commands.
Words Candidates(const Registry& registry, const Words& place) {
  for (const auto& command : registry.commands()) {
    if (command->words != place) continue;
    Words words = FlagsOf(*command);
    if (place.back() == "completion") words.emplace_back("bash");
    return words;
  }
  return registry.NextWords(place);
}

}  // namespace

std::string BashCompletion(const Registry& registry) {
  const std::vector<Words> places = PlacesOf(registry);
  std::string text(kBegin);
  for (const Words& place : places) {
    Words before = place;
    before.pop_back();
    text += fmt::format("      '{} {}') path='{}' ;;\n", fmt::join(before, " "), place.back(),
                        fmt::join(place, " "));
  }
  text += kMiddle;
  text += fmt::format("    '') candidates='{}' ;;\n", fmt::join(registry.NextWords({}), " "));
  for (const Words& place : places) {
    text += fmt::format("    '{}') candidates='{}' ;;\n", fmt::join(place, " "),
                        fmt::join(Candidates(registry, place), " "));
  }
  text += kEnd;
  return text;
}

}  // namespace muster::cli
