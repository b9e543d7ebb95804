// Where musterd is.
//
// In this order: --endpoint, MUSTER_ENDPOINT, and else the musterd of this machine, which says in
// <data-dir>/musterd.json where it listens. The data directory is MUSTER_DATA_DIR, or the default,
// which musterd uses too: $XDG_STATE_HOME/muster, or ~/.local/state/muster.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/error.h"
#include "cli/context.h"
#include "http/client.h"

namespace muster::cli {

// MUSTER_DATA_DIR, or the default above. FAILED_PRECONDITION without a home directory.
Result<std::filesystem::path> DataDirectory(const Variables& environment);

struct FoundEndpoint {
  http::Endpoint endpoint;
  std::string source;  // "--endpoint", "MUSTER_ENDPOINT", or the file that said so
};

// What to type if there is none where one was looked for.
std::string_view HowToStart();

// `flag`: the value of --endpoint, empty if it was not given. UNAVAILABLE, with how to start
// one, if there is no musterd.
Result<FoundEndpoint> FindEndpoint(const Variables& environment, const std::string& flag);

}  // namespace muster::cli
