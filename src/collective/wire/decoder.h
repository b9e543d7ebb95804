// Turns a connection's bytes into frames without copying them: the transport reads from its socket
// straight into where the bytes belong.
//
//     do {
//       const auto want = decoder.Want();           // two places: fits readv()
//       const ssize_t n = readv(socket, want…);
//     } while (n > 0 && decoder.Got(n));
//
// The first place is the rest of what is under way, usually a payload; the second is the next
// frame's header, so that a stream of frames costs one call for each. Bounded: the decoder itself
// never holds more than one control message.
//
// Thread rule: one thread at a time. The sink is called from within Got() alone, and must not call
// the decoder.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "collective/wire/frame.h"

namespace muster::collective {

class FrameSink {
 public:
  virtual ~FrameSink() = default;

  // Where the payload of this data frame goes: PayloadBytes(header) bytes that stay valid until
  // Arrived(), or nullptr to read and drop it. Not asked for empty payloads and control messages.
  virtual std::byte* Place(const FrameHeader& header) = 0;

  // The frame is complete. `payload` is where Place() said, or the decoder's own buffer, valid
  // during the call. Not called for frames that were dropped.
  virtual void Arrived(const FrameHeader& header, std::span<const std::byte> payload) = 0;
};

class FrameDecoder {
 public:
  explicit FrameDecoder(FrameSink& sink) : sink_(sink) {}
  FrameDecoder(const FrameDecoder&) = delete;
  FrameDecoder& operator=(const FrameDecoder&) = delete;

  // While only a handshake is allowed, any other frame is an error. On at first.
  void AllowOnlyHandshake(bool only) { only_handshake_ = only; }

  // Where the next bytes belong, in order; the second place may be empty, the first never is.
  std::array<std::span<std::byte>, 2> Want();

  // `bytes` were put there, at most as many as Want() had room for. An error is final: the
  // connection has to be closed.
  Status Got(size_t bytes);

  // For bytes that come in one's own buffer, as in tests.
  Status Feed(std::span<const std::byte> bytes);

  // The place of the payload under way must not be written to any more: the rest is read and
  // dropped, and Arrived() is not called for it.
  void DropPayload();

  // Bytes of the payload under way that are already where Place() said, and whose frame it is.
  size_t PartialBytes() const;
  const FrameHeader& header() const { return header_; }

 private:
  enum class Part { kHeader, kPayload, kChecksum };

  Status Take(size_t bytes);
  Status HeaderDone();
  Status PayloadDone();
  Status FrameDone();
  size_t PartBytes() const;

  FrameSink& sink_;
  bool only_handshake_ = true;
  bool failed_ = false;

  // Invariant: got_ < PartBytes().
  Part part_ = Part::kHeader;
  size_t got_ = 0;
  bool drop_ = false;
  std::byte* place_ = nullptr;  // of the payload; unused while dropping
  HeaderBytes header_bytes_;
  HeaderBytes next_header_bytes_;
  FrameHeader header_;
  std::array<std::byte, kChecksumBytes> checksum_;
  std::vector<std::byte> control_;  // also the bin for what is dropped
};

}  // namespace muster::collective
