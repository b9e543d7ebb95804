// A job's private network: a namespace with nothing but a working loopback, so that what training
// frameworks open on every interface, unauthenticated, is reached from the job's replicas alone.
//
// A namespace is held by descriptors only, musterd's and (inherited) the agents': nothing is pinned
// in a file system, and nothing is left when the last of them is closed.
#pragma once

#include <string>

#include "base/error.h"
#include "base/fd.h"

namespace muster::engine {

struct Namespaces {
  UniqueFd network;  // empty: the host's
  UniqueFd user;     // empty: none is needed, since musterd may make the others without
};

struct NamespaceWish {
  bool network = false;
  bool user = false;
};

// Made by a short-lived child that shares this process's descriptors and stops this thread until
// it is done (about 1 ms), as posix_spawn's does: a process with threads can neither enter a user
// namespace nor fork. PERMISSION_DENIED if the machine does not permit it.
Result<Namespaces> MakeNamespaces(NamespaceWish wish);

// What this machine permits to this process. Found by doing it.
struct NamespaceAbilities {
  bool network = false;
  bool mount = false;
  bool needs_user = false;     // each of the above only inside a user namespace
  std::string why_no_network;  // for the user
  std::string why_no_mount;
};
NamespaceAbilities FindNamespaceAbilities();

// The namespaces that a live process holds as its descriptors `network_fd` and `user_fd` (0: none).
Result<Namespaces> ReopenNamespaces(int pid, int network_fd, int user_fd);

}  // namespace muster::engine
