// muster version | status | completion.
#pragma once

#include "cli/command.h"

namespace muster::cli {

void AddAboutCommands(Registry& registry);

}  // namespace muster::cli
