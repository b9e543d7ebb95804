#include "cli/about.h"

#include <CLI/CLI.hpp>

#include "cli/dict_arg.h"
#include "cli/endpoint.h"
#include "cli/flags.h"
#include "cli/job_report.h"

#ifndef MUSTER_VERSION
#error "MUSTER_VERSION is the project's version"
#endif

namespace muster::cli {
namespace {

using nlohmann::json;

Result<int> Version(Invocation& invocation) {
  invocation.context.out.Print("muster {}\n", MUSTER_VERSION);
  return kExitOk;
}

// How many jobs are in a state: "12", or "1000 or more".
Result<std::string> CountJobs(Session& session, std::string_view state) {
  constexpr size_t kMost = 1000;
  MUSTER_ASSIGN(const json page,
                session.api.Get(fmt::format("/v1/{}/customJobs?pageSize={}&readMask=name&filter={}",
                                            session.location.Parent(), kMost,
                                            PercentEncode(fmt::format("state=\"{}\"", state)))));
  const json& jobs = ValueAt(page, "customJobs");
  const bool more = !TextAt(page, "nextPageToken").empty();
  return fmt::format("{}{}", jobs.size(), more ? " or more" : "");
}

Result<int> ShowStatus(Invocation& invocation, const ServerFlags& flags) {
  Context& context = invocation.context;
  MUSTER_ASSIGN(const FoundEndpoint found, FindEndpoint(context.environment, flags.endpoint));
  MUSTER_ASSIGN(Session session, OpenSession(context, flags));
  MUSTER_TRY(session.api.GetText("/healthz"));
  context.out.Print("{:<10}http://{}:{} (from {})\n", "musterd",
                    found.endpoint.host.find(':') == std::string::npos
                        ? found.endpoint.host
                        : "[" + found.endpoint.host + "]",
                    found.endpoint.port, found.source);
  context.out.Print("{:<10}{}\n", "jobs of", session.location.Parent());
  for (const std::string_view state :
       {"JOB_STATE_QUEUED", "JOB_STATE_PENDING", "JOB_STATE_RUNNING", "JOB_STATE_CANCELLING"}) {
    MUSTER_ASSIGN(const std::string count, CountJobs(session, state));
    if (count != "0" || state == "JOB_STATE_RUNNING") {
      context.out.Print("{:<10}{}\n", "", fmt::format("{} {}", count, ShortState(state)));
    }
  }
  return kExitOk;
}

Result<int> Completion(Invocation& invocation, const std::string& shell) {
  if (shell != "bash") {
    return invocation.Usage(
        {Code::kInvalidArgument,
         shell.empty() ? "argument SHELL: Must be specified; bash is the one that is supported."
                       : fmt::format("Invalid choice: '{}'. Only bash is supported.", shell)});
  }
  invocation.context.out.Write(BashCompletion(invocation.registry));
  return kExitOk;
}

}  // namespace

void AddAboutCommands(Registry& registry) {
  auto server = std::make_shared<ServerFlags>();
  AddServerFlags(
      registry.Add("status", "Show where musterd is and what it is doing",
                   [server](Invocation& invocation) { return ShowStatus(invocation, *server); }),
      *server);

  auto shell = std::make_shared<std::string>();
  CLI::App& completion =
      registry.Add("completion", "Print a script that completes muster's commands",
                   [shell](Invocation& invocation) { return Completion(invocation, *shell); });
  AddText(completion, "SHELL", *shell, "bash");
  completion.footer("To use it in this shell: source <(muster completion bash)");

  registry.Add("version", "Print the version", Version);
}

std::string BashCompletion(const Registry& registry) {
  std::string text = R"(# bash completion for muster: source <(muster completion bash)

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
  const auto join = [](const std::vector<std::string>& words, size_t count) {
    std::string joined;
    for (size_t i = 0; i < count; ++i) joined += (i > 0 ? " " : "") + words[i];
    return joined;
  };
  std::vector<std::string> paths;
  for (const auto& command : registry.commands()) {
    for (size_t count = 1; count <= command->words.size(); ++count) {
      const std::string path = join(command->words, count);
      if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
    }
  }
  for (const std::string& path : paths) {
    const size_t space = path.rfind(' ');
    const std::string before = space == std::string::npos ? "" : path.substr(0, space);
    const std::string word = space == std::string::npos ? path : path.substr(space + 1);
    text += fmt::format("      '{} {}') path='{}' ;;\n", before, word, path);
  }
  text += R"(    esac
  done
  case "$previous" in
    --config) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --format) COMPREPLY=($(compgen -W 'json yaml' -- "$current")); return ;;
  esac
  case "$path" in
)";
  const auto candidates = [&](const std::string& path, const std::vector<std::string>& words) {
    text += fmt::format("    '{}') candidates='", path);
    for (size_t i = 0; i < words.size(); ++i) text += (i > 0 ? " " : "") + words[i];
    text += "' ;;\n";
  };
  candidates("", registry.NextWords({}));
  for (const std::string& path : paths) {
    std::vector<std::string> words;
    for (const auto& command : registry.commands()) {
      if (join(command->words, command->words.size()) != path) continue;
      words = FlagsOf(*command);
      if (path == "completion") words.emplace_back("bash");
    }
    if (words.empty()) words = registry.NextWords(SplitNonEmpty(path, ' '));
    candidates(path, words);
  }
  text += R"(  esac
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
  return text;
}

}  // namespace muster::cli
