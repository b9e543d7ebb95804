#include "cli/about.h"

#include <CLI/CLI.hpp>

#include "cli/completion.h"
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

}  // namespace muster::cli
