// Which peers are alive. Each is sent a heartbeat at intervals, answered or not: a rank that
// computes for minutes is alive because its I/O thread sends them; one that is stopped, swapped out
// or cut off is not heard, and is lost after the deadline.
//
// Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/round/output.h"

namespace muster::collective {

struct LivenessConfig {
  std::chrono::nanoseconds interval = std::chrono::milliseconds(500);
  std::chrono::nanoseconds deadline = std::chrono::seconds(3);
};

class Liveness {
 public:
  explicit Liveness(const LivenessConfig& config, size_t peers);

  // The handshake with a peer is over; it is watched from now.
  void Watch(uint16_t peer, Instant now);
  void Forget(uint16_t peer);

  // Any bytes came from it.
  void Heard(uint16_t peer, Instant now);

  struct Actions {
    std::vector<uint16_t> beat;  // send a heartbeat
    std::vector<uint16_t> lost;  // no longer watched
  };
  // Call it a few times in an interval, and read what has come in before, so that peers are not
  // blamed for what lies in our own sockets. If this process itself was stopped, the calls are far
  // apart: then nobody is lost, and all get a new deadline.
  Actions Tick(Instant now);

 private:
  struct Peer {
    bool watched = false;
    Instant heard;
    Instant beat;
  };
  const LivenessConfig config_;
  std::vector<Peer> peers_;
  Instant last_tick_;
};

}  // namespace muster::collective
