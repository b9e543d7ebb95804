#include "cli/run.h"

#include <CLI/CLI.hpp>

#include "cli/duration.h"
#include "cli/flags.h"
#include "cli/run_spec.h"
#include "cli/watch.h"
#include "cli/yaml.h"

namespace muster::cli {
namespace {

using nlohmann::json;

struct Flags {
  RunFlags run;
  std::string timeout;
  std::vector<std::string> labels;
  bool print_yaml = false;
  bool detach = false;
  ServerFlags server;
};

constexpr const char* kHelp = R"(Examples:
  muster run --workers 2 -- python train.py --epochs 3
  muster run --workers 2 --parameter-servers 1 --evaluator -- python ps.py
  muster run --print-yaml --workers 2 -- python train.py > job.yaml
  muster custom-jobs create --config=job.yaml

--workers 2 makes a cluster of three: the chief (worker pool 0) and two workers (pool 1). Each replica
runs the program in this directory with this shell's PATH, virtual environment and PYTHONPATH, and
learns from CLUSTER_SPEC, TF_CONFIG, MASTER_ADDR, RANK, … who it is. Programs must be readable for
musterd, on whose machine they run. Arguments are passed on as they are typed, but '$(AIP_MODEL_DIR)',
in single quotes, becomes the model's directory.

Ctrl-C cancels the job and shows how it ends; a second Ctrl-C stops watching.
The exit status: 0 SUCCEEDED, 1 FAILED, 3 CANCELLED, 130 after Ctrl-C.)";

Result<json> BuildJob(const Invocation& invocation, Flags& flags) {
  flags.run.program = invocation.rest;
  if (!flags.timeout.empty()) {
    const auto timeout = ParseDuration(flags.timeout);
    if (!timeout) {
      return Fail(Code::kInvalidArgument, "argument --timeout: {}", timeout.error().message);
    }
    flags.run.timeout = *timeout;
  }
  for (const std::string& text : flags.labels) {
    auto labels = ParseDictFlag(text, {});
    if (!labels) {
      return Fail(Code::kInvalidArgument, "argument --labels: {}", labels.error().message);
    }
    for (const auto& [key, value] : *labels) flags.run.labels[key] = value;
  }
  const Context& context = invocation.context;
  return BuildRunJob(flags.run, context.environment, context.directory.string(),
                     context.clock.Now());
}

Result<int> Run(Invocation& invocation, Flags& flags) {
  const Result<json> job = BuildJob(invocation, flags);
  if (!job) return invocation.Usage(job.error());
  if (flags.print_yaml) {
    invocation.context.out.Write(ToYaml(*job));
    return kExitOk;
  }
  MUSTER_ASSIGN(Session session, OpenSession(invocation.context, flags.server));
  MUSTER_ASSIGN(const json created, SubmitJob(invocation, session, *job, !flags.detach));
  if (flags.detach) return kExitOk;
  FollowOptions options;
  options.cancel_on_interrupt = true;
  return WatchJob(invocation, session, TextAt(created, "name"), options);
}

void AddFlags(CLI::App& app, Flags& flags) {
  RunFlags& run = flags.run;
  app.add_option("--workers", run.workers, "Workers beside the chief")->type_name("N");
  app.add_option("--parameter-servers", run.parameter_servers, "Parameter servers")->type_name("N");
  app.add_flag("--evaluator", run.evaluator, "An evaluator beside the cluster");
  AddText(app, "--display-name=NAME", run.display_name, "Name of the job (default: the program's)");
  AddText(app, "--machine-type=TYPE", run.machine_type,
          "Of each replica's machine (default e2-standard-4)");
  AddText(app, "--accelerator-type=TYPE", run.accelerator_type,
          "E.g. NVIDIA_TESLA_T4, for chief, workers and evaluator");
  app.add_option("--accelerator-count", run.accelerator_count, "Accelerators of each")
      ->type_name("N");
  AddText(app, "--base-output-directory=URI", run.base_output_directory,
          "gs://… for AIP_MODEL_DIR and the like (default gs://muster-runs/NAME-TIME)");
  AddTexts(app, "--env=NAME=VALUE", run.env,
           "A variable of the program; NAME alone passes on this shell's");
  AddText(app, "--image=URI", run.image, "A container image (default: this machine as it is)");
  AddText(app, "--timeout=DURATION", flags.timeout,
          "End the job after this long, e.g. 90s, 15m, 1h30m");
  AddTexts(app, "--labels=KEY=VALUE,...", flags.labels, "Labels of the job");
  app.add_flag("--print-yaml,--dry-run", flags.print_yaml,
               "Print the CustomJob instead of submitting it");
  app.add_flag("-d,--detach", flags.detach, "Submit, and do not watch");
  AddServerFlags(app, flags.server);
  app.footer(kHelp);
}

}  // namespace

void AddRunCommand(Registry& registry) {
  auto flags = std::make_shared<Flags>();
  CLI::App& app =
      registry.AddWithProgram("run", "Run a program of this directory as a training cluster",
                              [flags](Invocation& invocation) { return Run(invocation, *flags); });
  AddFlags(app, *flags);
}

}  // namespace muster::cli
