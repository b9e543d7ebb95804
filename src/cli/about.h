// muster version | status | completion.
#pragma once

#include <string>

#include "cli/command.h"

namespace muster::cli {

void AddAboutCommands(Registry& registry);

// A bash script that completes the registry's commands, their flags, and job IDs.
std::string BashCompletion(const Registry& registry);

}  // namespace muster::cli
