// muster-agent: supervises one attempt (docs/protocol/agent.md).
#pragma once

#include <filesystem>

namespace muster::agent {

// Returns the process's exit code (attempt/files.h). The caller leaves with _exit: a reporting
// thread may still run.
int RunAgent(const std::filesystem::path& attempt_directory);

}  // namespace muster::agent
