// Ports that no two jobs get, also with several musterds on one machine.
//
// A program cannot be handed a bound socket (TensorFlow and PyTorch bind by number), so a port that
// is tested free may be taken before it is used. Two things close that gap: ports come from outside
// the range from which the kernel gives ports to outgoing connections, and each is leased: the
// lease is an abstract Unix socket, "\0muster-port-<n>", which exists once per network namespace
// and ends with its last descriptor. musterd holds it and its agents inherit it, so that a lease
// outlives musterd for as long as it is in use, and nothing can be left behind.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace muster::engine {

struct PortRange {
  int first = 20000;
  int last = 29999;  // included

  bool operator==(const PortRange&) const = default;
};

// `wanted`, cut to what does not overlap the kernel's ephemeral range ("32768\t60999", the content
// of /proc/sys/net/ipv4/ip_local_port_range). If less than 100 ports are left, the largest part
// above 1024 that is outside. If there is none, `wanted`: the leases must do.
PortRange AdaptPortRange(PortRange wanted, std::string_view ephemeral_range);

struct PortLease {
  int port = 0;
  UniqueFd fd;  // empty: an agent holds it, and musterd could not get a copy
};

class PortPool {
 public:
  explicit PortPool(PortRange range) : range_(range), next_(range.first) {}

  // `count` different ports that nobody listens on, at any address. RESOURCE_EXHAUSTED if there are
  // not so many.
  Result<std::vector<PortLease>> Lease(size_t count);

  // Takes a certain port: after a restart, or when the agents that held it have ended. The lease
  // is without a descriptor if somebody else, perhaps an agent, holds it.
  static PortLease Take(int port);
  // As Take, with a copy of the descriptor that the process `pidfd` inherited as `fd`.
  static PortLease TakeFrom(int port, int pidfd, int fd);

  PortRange range() const { return range_; }

 private:
  const PortRange range_;
  int next_;  // ports are used in turn: one just given back may have connections that linger
};

}  // namespace muster::engine
