// Who gives and who gets in a chunk.
#pragma once

#include "collective/wire/frame.h"

namespace muster::collective {

// Every rank sends a CONTRIBUTION for every chunk and gets a RESULT for it, so that the credit
// window, the order of chunks and recovery are the same for all collectives; those who have nothing
// to give or get exchange empty ones. The root of a chunk is who alone gives, in a broadcast or an
// all-gather, or who alone gets, in a reduce-scatter.
constexpr bool Contributes(const FrameHeader& chunk, uint16_t rank) {
  return (chunk.collective != Collective::kBroadcast &&
          chunk.collective != Collective::kAllGather) ||
         chunk.root == rank;
}

constexpr bool Receives(const FrameHeader& chunk, uint16_t rank) {
  switch (chunk.collective) {
    case Collective::kBroadcast:
    case Collective::kAllGather:
      return chunk.root != rank;  // it has them
    case Collective::kReduceScatter:
      return chunk.root == rank;
    default:
      return true;
  }
}

constexpr bool HasRoot(Collective kind) {
  return kind == Collective::kBroadcast || kind == Collective::kAllGather ||
         kind == Collective::kReduceScatter;
}

}  // namespace muster::collective
