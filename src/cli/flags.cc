#include "cli/flags.h"

#include <CLI/CLI.hpp>

#include "cli/endpoint.h"

namespace muster::cli {

namespace {

// `name` may say how its value is called in the help: "--region=REGION".
CLI::Option* Add(CLI::App& app, const std::string& name, CLI::callback_t take,
                 const std::string& help) {
  const size_t equals = name.find('=');
  const std::string metavar = equals == std::string::npos ? "" : name.substr(equals + 1);
  return app.add_option(name.substr(0, equals), std::move(take), help)
      ->expected(1)
      ->allow_extra_args(false)
      ->type_name(metavar);
}

}  // namespace

CLI::Option* AddText(CLI::App& app, const std::string& name, std::string& value,
                     const std::string& help) {
  const auto take = [&value](const CLI::results_t& results) {
    value = results.back();
    return true;
  };
  return Add(app, name, take, help);
}

CLI::Option* AddText(CLI::App& app, const std::string& name, std::optional<std::string>& value,
                     const std::string& help) {
  const auto take = [&value](const CLI::results_t& results) {
    value = results.back();
    return true;
  };
  return Add(app, name, take, help);
}

CLI::Option* AddTexts(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                      const std::string& help) {
  const auto take = [&values](const CLI::results_t& results) {
    values = results;
    return true;
  };
  return Add(app, name, take, help)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

CLI::Option* AddSwitch(CLI::App& app, const std::string& name, std::optional<bool>& value,
                       const std::string& help) {
  app.add_flag_callback("--no-" + name.substr(2), [&value] { value = false; })->group("");
  return app.add_flag_callback(name, [&value] { value = true; }, help);
}

void AddServerFlags(CLI::App& app, ServerFlags& flags) {
  constexpr const char* kGroup = "Server";
  AddText(app, "--region=REGION", flags.region,
          "Region of the job (MUSTER_REGION, CLOUDSDK_AI_REGION; default us-central1)")
      ->group(kGroup);
  AddText(app, "--project=PROJECT", flags.project,
          "Project of the job (MUSTER_PROJECT, CLOUDSDK_CORE_PROJECT; default muster)")
      ->group(kGroup);
  AddText(app, "--endpoint=HOST:PORT", flags.endpoint,
          "Address of musterd (MUSTER_ENDPOINT; default: the musterd of this machine)")
      ->group(kGroup);
  app.add_flag("-q,--quiet", flags.quiet, "Accepted for gcloud's sake; no command asks questions")
      ->group(kGroup);
}

Result<Session> OpenSession(const Context& context, const ServerFlags& flags) {
  MUSTER_ASSIGN(Location location,
                ResolveLocation(context.environment, flags.project, flags.region));
  MUSTER_ASSIGN(const FoundEndpoint first, FindEndpoint(context.environment, flags.endpoint));
  FindServer find = [environment = context.environment,
                     flag = flags.endpoint]() -> Result<http::Endpoint> {
    MUSTER_ASSIGN(FoundEndpoint found, FindEndpoint(environment, flag));
    return std::move(found.endpoint);
  };
  std::string advice = fmt::format(".\nThat address is from {}.\n{}", first.source, HowToStart());
  return Session{std::move(location),
                 Api(std::move(find), std::chrono::seconds(60), std::move(advice))};
}

}  // namespace muster::cli
