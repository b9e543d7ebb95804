// muster run: a command of this directory and environment, as a training cluster.
#pragma once

#include "cli/command.h"

namespace muster::cli {

void AddRunCommand(Registry& registry);

}  // namespace muster::cli
