// muster custom-jobs create | describe | list | cancel | delete | stream-logs, in gcloud's words.
#pragma once

#include "cli/command.h"

namespace muster::cli {

void AddCustomJobsCommands(Registry& registry);

// One of them, in a file of its own.
void AddCustomJobsCreate(Registry& registry);

}  // namespace muster::cli
