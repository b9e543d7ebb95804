// Putting a forked child into its job's namespaces and a file system view of its own. Called in the
// child only, between fork and exec: the agent itself stays on the host, where it can reach
// musterd.
#pragma once

#include <filesystem>

#include "base/error.h"

namespace muster::v1 {
class Isolation;
}

namespace muster::agent {

// What cannot be made is an error that names it. `staging`: an empty directory that the view is
// built on; nothing is left there on the host.
Status EnterSandbox(const muster::v1::Isolation& isolation, const std::filesystem::path& staging);

}  // namespace muster::agent
