// A bash script that completes the registry's commands, their flags, and job IDs.
#pragma once

#include <string>

#include "cli/command.h"

namespace muster::cli {

std::string BashCompletion(const Registry& registry);

}  // namespace muster::cli
