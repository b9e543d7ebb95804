// The frame header. docs/protocol/reduction.md describes these bytes with the same names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"
#include "collective/types/types.h"

namespace muster::collective {

inline constexpr size_t kHeaderBytes = 64;
inline constexpr size_t kChecksumBytes = 4;
inline constexpr uint16_t kMagic = 0x524D;  // "MR" in the order of the bytes
inline constexpr uint8_t kProtocolVersion = 1;

// The largest payload of a data frame, and of a control frame. Before a peer has proved that it
// knows the job's secret it may send handshake messages only, which are small.
inline constexpr uint32_t kDataBytesMax = 1u << 20;
inline constexpr uint32_t kControlBytesMax = 4u << 20;
inline constexpr uint32_t kHandshakeBytesMax = 2u << 10;

inline constexpr uint16_t kNoRank = 0xFFFF;

enum class FrameType : uint8_t {
  // Handshake, in this order; kRefused in place of any answer.
  kHello = 1,
  kChallenge = 2,
  kProof = 3,
  kWelcome = 4,
  kRefused = 5,
  // Both ways, at any time after it.
  kHeartbeat = 8,
  kGoodbye = 9,  // the sender is done; its closing the connection is no failure
  kAbort = 10,
  // Data.
  kContribution = 16,  // to an endpoint
  kResult = 17,        // from an endpoint
  kPass = 18,          // a lost reducer's result, from a worker that has it
  // Plans and recovery.
  kPlan = 24,
  kLost = 25,     // any worker to rank 0, or a reducer to all: a peer is lost
  kFence = 26,    // rank 0 to all workers: a reducer is lost, stop there and report
  kPrefix = 27,   // the report
  kRecover = 28,  // rank 0 to all workers: how to go on
};

// flags
inline constexpr uint8_t kFlagEmpty = 1;    // `length` bytes are meant, but none follow
inline constexpr uint8_t kFlagChecked = 2;  // a CRC-32C of header and payload follows the payload
inline constexpr uint8_t kFlagsKnown = kFlagEmpty | kFlagChecked;

struct FrameHeader {
  FrameType type = FrameType::kHeartbeat;
  uint8_t flags = 0;
  // In data frames; 0 in others.
  DataType dtype{};
  ReduceOp op{};
  Collective collective{};
  uint64_t job = 0;
  uint32_t group = 0;       // one job may have several communicators
  uint32_t epoch = 0;       // of a data frame: the epoch of its stream
  uint64_t sequence = 0;    // of the operation, from 1
  uint64_t offset = 0;      // of the chunk in the payload, in bytes
  uint64_t total = 0;       // bytes of the whole payload
  uint64_t chunk = 0;       // place of the chunk in its stream, from 0
  uint32_t length = 0;      // bytes of the chunk or of the control message
  uint16_t rank = 0;        // the sender: a worker's rank, or workers + a reducer's index
  uint16_t root = kNoRank;  // the one rank that contributes or receives, where there is one

  bool operator==(const FrameHeader&) const = default;
};

constexpr bool IsData(FrameType type) {
  return type >= FrameType::kContribution && type <= FrameType::kPass;
}
constexpr bool IsHandshake(FrameType type) {
  return type >= FrameType::kHello && type <= FrameType::kRefused;
}

// Bytes between this header and the next, without the checksum.
constexpr uint32_t PayloadBytes(const FrameHeader& header) {
  return (header.flags & kFlagEmpty) != 0 ? 0 : header.length;
}

std::string_view Name(FrameType type);

using HeaderBytes = std::array<std::byte, kHeaderBytes>;

HeaderBytes EncodeHeader(const FrameHeader& header);

// Accepts exactly what EncodeHeader makes of a header that keeps the rules of the protocol: known
// type and flags, lengths within the limits above, offset + length within total, valid dtype, op
// and collective in data frames and none in others. kInvalidArgument says which rule was broken.
Result<FrameHeader> DecodeHeader(std::span<const std::byte, kHeaderBytes> bytes);

}  // namespace muster::collective
