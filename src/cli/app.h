// The whole command line.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/context.h"

namespace muster::cli {

// Every command group there is. A new one is added here.
void AddAllCommands(Registry& registry);

// `arguments`: argv without argv[0]. Returns the exit status.
int RunMuster(Context& context, std::vector<std::string> arguments);

}  // namespace muster::cli
