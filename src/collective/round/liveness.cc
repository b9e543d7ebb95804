#include "collective/round/liveness.h"

namespace muster::collective {

Liveness::Liveness(const LivenessConfig& config, size_t peers) : config_(config), peers_(peers) {}

void Liveness::Watch(uint16_t peer, Instant now) { peers_[peer] = {true, now, now}; }

void Liveness::Forget(uint16_t peer) { peers_[peer].watched = false; }

void Liveness::Heard(uint16_t peer, Instant now) { peers_[peer].heard = now; }

Liveness::Actions Liveness::Tick(Instant now) {
  const bool stopped = last_tick_ != Instant() && now - last_tick_ > config_.deadline / 2;
  last_tick_ = now;
  Actions actions;
  for (uint16_t peer = 0; peer < static_cast<uint16_t>(peers_.size()); ++peer) {
    Peer& state = peers_[peer];
    if (!state.watched) continue;
    if (stopped) state.heard = now;
    if (now - state.heard >= config_.deadline) {
      state.watched = false;
      actions.lost.push_back(peer);
    } else if (now - state.beat >= config_.interval) {
      state.beat = now;
      actions.beat.push_back(peer);
    }
  }
  return actions;
}

}  // namespace muster::collective
