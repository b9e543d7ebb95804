// Starting one process: its pipes, its place, and a plain answer to why it could not start.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace muster::agent {

struct Program {
  std::vector<std::string> argv;         // argv[0] is searched for in the environment's PATH
  std::vector<std::string> environment;  // "NAME=value"
  std::string working_directory;
  // Descriptor 3 of the program is the status pipe: it may write there why it failed.
  bool keeps_status_pipe = false;
};

struct Child {
  pid_t pid = 0;
  UniqueFd out, err;  // read ends, non-blocking
  // Read end, non-blocking. At its end the program runs, if nothing was read; else what was read
  // says why it does not, and the child exits.
  UniqueFd status;
};

// `prepare` runs in the child, which has a single thread, in its own session. The caller must not
// have started threads.
Result<Child> StartChild(const Program& program, const std::function<Status()>& prepare);

// The exit code of a child that could not start its program.
inline constexpr int kNotStartedCode = 127;

}  // namespace muster::agent
