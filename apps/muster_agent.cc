// muster-agent ATTEMPT_DIRECTORY: supervises one run of one replica. Started by musterd.
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "agent/agent.h"
#include "attempt/files.h"

int main(int argc, char** argv) {
  if (argc != 2 || std::string_view(argv[1]).starts_with('-')) {
    std::fprintf(
        stderr,
        "usage: muster-agent ATTEMPT_DIRECTORY\n"
        "Supervises one run of one replica as its launch.json says. Started by musterd.\n");
    return muster::attempt::kAgentBadUsage;
  }
  ::_exit(muster::agent::RunAgent(argv[1]));
}
