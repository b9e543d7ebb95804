// Starting an agent: in a session of its own, with nothing inherited but what it is meant to have.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/error.h"
#include "base/fd.h"

namespace muster::engine {

// Where an agent finds what it inherits. Fixed, so that a musterd that comes back can take copies.
inline constexpr int kNetworkNamespaceFd = 200;
inline constexpr int kUserNamespaceFd = 201;
inline constexpr int kPortLeaseFd = 202;        // its replica's
inline constexpr int kMasterPortLeaseFd = 203;  // the job's
inline constexpr int kFirstInheritedFd = kNetworkNamespaceFd;
inline constexpr int kLastInheritedFd = kMasterPortLeaseFd;

struct AgentProcess {
  int pid = 0;
  UniqueFd pidfd;
  bool is_child = false;
};

// `inherited`: number in the agent → descriptor here (less than 0: none). SIGTERM is blocked, for
// the agent to take when it is ready.
Result<AgentProcess> SpawnAgent(const std::filesystem::path& binary,
                                const std::filesystem::path& attempt_directory,
                                const std::filesystem::path& log,
                                const std::map<int, int>& inherited);

// A live process, by number. NOT_FOUND if there is none.
Result<UniqueFd> OpenProcess(int pid);
void SendSignal(int pidfd, int signal);
// The exit code of an ended child, reaped by this; -1 if it was ended by a signal or is no child.
int ReapChild(int pidfd);

}  // namespace muster::engine
