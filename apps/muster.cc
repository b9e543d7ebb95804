// muster: the command line.

#include <csignal>

#include "cli/app.h"
#include "cli/context.h"

int main(int argc, char** argv) {
  // A reader that has gone (| head) is seen by the write that fails; a closed connection, too.
  std::signal(SIGPIPE, SIG_IGN);
  muster::cli::ProcessContext process;
  return muster::cli::RunMuster(process.context(),
                                std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
