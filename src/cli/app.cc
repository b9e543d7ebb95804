#include "cli/app.h"

#include "cli/about.h"
#include "cli/custom_jobs.h"
#include "cli/run.h"

namespace muster::cli {

void AddAllCommands(Registry& registry) {
  registry.DescribeGroup("", "Muster runs Vertex AI custom-training jobs on your own machines.");
  AddRunCommand(registry);
  AddCustomJobsCommands(registry);
  AddAboutCommands(registry);
}

int RunMuster(Context& context, std::vector<std::string> arguments) {
  Registry registry;
  AddAllCommands(registry);
  if (arguments.size() == 1 && arguments[0] == "--version") arguments = {"version"};
  return registry.Run(context, std::move(arguments));
}

}  // namespace muster::cli
