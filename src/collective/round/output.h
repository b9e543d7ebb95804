// What the pure state machines ask of the world. The transport implements it for sockets, the
// simulation for its network.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "collective/wire/frame.h"

namespace muster::collective {

// Times come in as arguments; nothing here reads the clock.
using Instant = std::chrono::steady_clock::time_point;

// Peers are numbered as endpoints are: workers by rank, then reducers. Frames to one peer arrive in
// the order of the calls, or the peer is lost. No call may re-enter the machine that makes it.
class FrameOutput {
 public:
  virtual ~FrameOutput() = default;

  // A data frame. The payload is not copied here: it stays valid and unchanged until the peer has
  // received it, or until Close() or DropQueued().
  virtual void Send(uint16_t peer, const FrameHeader& header,
                    std::span<const std::byte> payload) = 0;

  // A control frame, or a data frame with bytes of its own.
  virtual void SendMessage(uint16_t peer, const FrameHeader& header, std::string body) = 0;
};

// How much of an unfinished RESULT payload is already where Place() said.
struct Unfinished {
  FrameHeader header;
  uint32_t bytes = 0;  // whole elements only; 0: none
};

class WorkerOutput : public FrameOutput {
 public:
  // The peer is given up: nothing more is sent to it, what is queued for it is dropped, nothing
  // more is read from it. Afterwards no place that was handed out for its frames is written to.
  //
  // A transport that reads results straight into the user's buffer reports here how far it got, in
  // whole elements: it must never leave a part of an element there. One that reads frames whole
  // before it copies them reports nothing.
  virtual Unfinished Close(uint16_t peer) = 0;

  // The epoch is over. Every queued data frame is dropped and no place is written to any more: the
  // users' buffers are about to be given back. (What a connection has begun to send must be
  // finished from a copy, or the connection closed.)
  virtual void DropQueued() = 0;

  // The operation is finished; its buffers belong to the user again. Called in order of sequence
  // for those that fail together, else in order of completion. May come from within Start().
  virtual void Done(uint64_t sequence, const Status& status) = 0;
};

}  // namespace muster::collective
