#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>

#include "base/file.h"
#include "cli/config_error.h"
#include "cli/custom_job_spec.h"
#include "cli/custom_jobs.h"
#include "cli/flags.h"
#include "cli/format.h"
#include "cli/watch.h"
#include "cli/yaml.h"

namespace muster::cli {
namespace {

using nlohmann::json;

// As written; CreateFlags holds what they mean.
struct Flags {
  CreateFlags create;
  std::optional<std::string> config_file;
  std::vector<std::string> args;
  std::vector<std::string> command;
  std::vector<std::string> python_package_uris;
  std::vector<std::string> labels;
  std::string format;
  bool wait = false;
  bool async = false;
  ServerFlags server;
};

constexpr const char* kExamples = R"(Examples:
  muster custom-jobs create --display-name=digits --config=job.yaml --wait

  muster custom-jobs create --display-name=digits \
    --worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/trainer \
    --worker-pool-spec=machine-type=n1-standard-4,replica-count=2,container-image-uri=gcr.io/p/trainer \
    --args=--epochs=3,--lr=0.1

Keys of a worker pool: machine-type, replica-count (1), accelerator-type, accelerator-count, and
container-image-uri, or executor-image-uri with python-module. Given here, pools replace those of
--config; --args, --command and --python-package-uris go to all pools.
Lists are separated by commas; ^;^a=1;b=2 chooses another delimiter.
The exit status of --wait: 0 SUCCEEDED, 1 FAILED, 3 CANCELLED, 130 if Ctrl-C ended the watching.)";

Result<std::string> ReadStandardInput() {
  std::string text;
  char piece[16 * 1024];
  while (true) {
    const ssize_t got = ::read(STDIN_FILENO, piece, sizeof piece);
    if (got == 0) return text;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FailErrno(errno, "standard input");
    text.append(piece, got);
  }
}

Result<json> ReadConfig(const std::optional<std::string>& file) {
  if (!file) return json();
  const Result<std::string> text = *file == "-" ? ReadStandardInput() : ReadFile(*file);
  if (!text) {
    return Fail(text.error().code, "Invalid value for [--config]: {}", text.error().message);
  }
  Result<json> config = ParseDocument(*text);
  if (!config) {
    return Fail(Code::kInvalidArgument, "Invalid value for [--config]: {}: {}", *file,
                config.error().message);
  }
  if (config->is_null()) {
    return Fail(Code::kInvalidArgument, "Invalid value for [--config]: {} is empty", *file);
  }
  return config;
}

// Flags that may come several times add up, as in gcloud.
Status ParseLists(const std::vector<std::string>& texts, std::string_view flag,
                  std::optional<std::vector<std::string>>& list) {
  for (const std::string& text : texts) {
    auto items = ParseListFlag(text);
    if (!items) {
      return Fail(Code::kInvalidArgument, "argument {}: {}", flag, items.error().message);
    }
    if (!list) list.emplace();
    list->insert(list->end(), items->begin(), items->end());
  }
  return {};
}

Result<json> BuildJob(Flags& flags, const json& config) {
  if (flags.create.worker_pool_specs.empty() && !flags.config_file) {
    return Fail(Code::kInvalidArgument,
                "at least one of --config | --worker-pool-spec must be specified.");
  }
  if (flags.wait && flags.async) {
    return Fail(Code::kInvalidArgument, "argument --wait: not allowed together with --async");
  }
  MUSTER_TRY(ParseLists(flags.args, "--args", flags.create.args));
  MUSTER_TRY(ParseLists(flags.command, "--command", flags.create.command));
  MUSTER_TRY(ParseLists(flags.python_package_uris, "--python-package-uris",
                        flags.create.python_package_uris));
  for (const std::string& text : flags.labels) {
    auto labels = ParseDictFlag(text, {});
    if (!labels) {
      return Fail(Code::kInvalidArgument, "argument --labels: {}", labels.error().message);
    }
    for (const auto& [key, value] : *labels) flags.create.labels[key] = value;
  }
  return BuildCustomJob(flags.create, config);
}

// The server's path and spelling mean little to the one who wrote the file.
Error InWordsOfFile(Error error, const Flags& flags, const json& config) {
  if (error.code != Code::kInvalidArgument || !flags.config_file) return error;
  const std::string file = *flags.config_file == "-" ? "standard input" : *flags.config_file;
  return {error.code, InWordsOfConfig(error.message, file, config)};
}

Result<int> Create(Invocation& invocation, Flags& flags) {
  const Result<Format> format = ParseFormat(flags.format);
  if (!format) return invocation.Usage(format.error());
  const Result<json> config = ReadConfig(flags.config_file);
  if (!config) return invocation.Usage(config.error());
  const Result<json> job = BuildJob(flags, *config);
  if (!job) return invocation.Usage(job.error());
  MUSTER_ASSIGN(Session session, OpenSession(invocation.context, flags.server));
  const Result<json> submitted = SubmitJob(invocation, session, *job, flags.wait);
  if (!submitted) return std::unexpected(InWordsOfFile(submitted.error(), flags, *config));
  const json& created = *submitted;
  if (!flags.format.empty()) invocation.context.out.Write(FormatResource(created, *format));
  if (!flags.wait) return kExitOk;
  return WatchJob(invocation, session, TextAt(created, "name"), {});
}

void AddFlags(CLI::App& app, Flags& flags) {
  CreateFlags& create = flags.create;
  AddText(app, "--display-name=NAME", create.display_name, "Name of the job, for people");
  AddText(app, "--config=FILE", flags.config_file,
          "A CustomJobSpec, or a CustomJob, in YAML or JSON; - is standard input");
  AddTexts(app, "--worker-pool-spec=KEY=VALUE,...", create.worker_pool_specs,
           "One worker pool; once for each, empty to skip one (see below)");
  AddTexts(app, "--args=ARG,...", flags.args, "Arguments for the programs of all pools");
  AddTexts(app, "--command=WORD,...", flags.command, "Entrypoint of the containers of all pools");
  AddTexts(app, "--python-package-uris=URI,...", flags.python_package_uris,
           "Packages to install, in pools with python-module");
  AddTexts(app, "--labels=KEY=VALUE,...", flags.labels, "Labels of the job");
  AddText(app, "--service-account=ACCOUNT", create.service_account, "Account that the job runs as");
  AddText(app, "--network=NETWORK", create.network, "Network to peer with");
  AddSwitch(app, "--enable-web-access", create.enable_web_access, "Allow shells in replicas");
  AddSwitch(app, "--enable-dashboard-access", create.enable_dashboard_access,
            "Allow access to the job's dashboard");
  AddText(app, "--persistent-resource-id=ID", create.persistent_resource_id,
          "Persistent resource to run on");
  app.add_flag("--wait", flags.wait, "Follow the log until the job ends; exit by its state");
  app.add_flag("--async", flags.async, "Return once the job is submitted (the default)");
  AddText(app, "--format=FORMAT", flags.format,
          "Print the created job as json, yaml or value(FIELD,…), e.g. value(name)");
  AddServerFlags(app, flags.server);
  app.footer(kExamples);
}

}  // namespace

void AddCustomJobsCreate(Registry& registry) {
  auto flags = std::make_shared<Flags>();
  CLI::App& app =
      registry.Add("custom-jobs create", "Submit a custom job",
                   [flags](Invocation& invocation) { return Create(invocation, *flags); });
  AddFlags(app, *flags);
}

}  // namespace muster::cli
