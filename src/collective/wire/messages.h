// The bodies of control frames. docs/protocol/reduction.md describes them with the same names.
//
// Decode functions take any bytes: kInvalidArgument on all but what Encode makes of a message
// within the limits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "collective/plan/plan.h"

namespace muster::collective {

// A stream is all that goes between the workers and one endpoint in one epoch, but for the exchange
// lane. How far a worker got in it: `chunks` results whole, and `bytes` of the next one already in
// the user's buffer (whole elements only).
struct Progress {
  uint64_t chunks = 0;
  uint32_t bytes = 0;

  auto operator<=>(const Progress&) const = default;
};

// kAbort: the epoch is over. `rank` is to blame, kNoRank if nobody in particular.
struct AbortMessage {
  Code code = Code::kAborted;
  uint16_t rank = 0xFFFF;
  std::string reason;

  bool operator==(const AbortMessage&) const = default;
};

// kLost: the sender cannot reach `peer`.
struct LostMessage {
  uint16_t peer = 0;
  std::string reason;

  bool operator==(const LostMessage&) const = default;
};

// kFence; the frame's epoch is the one that will begin.
struct FenceMessage {
  uint16_t endpoint = 0;  // the lost reducer

  bool operator==(const FenceMessage&) const = default;
};

struct StreamProgress {
  uint32_t epoch = 0;
  Progress progress;

  bool operator==(const StreamProgress&) const = default;
};

// kPrefix: an answer to kFence.
struct PrefixMessage {
  uint64_t started = 0;                 // the last operation that the worker has begun
  std::vector<StreamProgress> streams;  // with the lost endpoint, oldest first

  bool operator==(const PrefixMessage&) const = default;
};

struct StreamRecovery {
  uint32_t epoch = 0;
  uint16_t holder = 0;             // the worker that got furthest, and passes on what others lack
  std::vector<Progress> progress;  // by rank

  bool operator==(const StreamRecovery&) const = default;
};

// kRecover: the frame's epoch begins now. Operations after `started` follow `plan`.
struct RecoverMessage {
  uint16_t endpoint = 0;
  uint64_t started = 0;
  std::vector<StreamRecovery> streams;
  Plan plan;

  bool operator==(const RecoverMessage&) const = default;
};

// Losses one after another while old operations still run: the streams of one endpoint at once.
inline constexpr size_t kStreamsMax = 64;

std::string Encode(const Plan& plan);
std::string Encode(const AbortMessage& message);
std::string Encode(const LostMessage& message);
std::string Encode(const FenceMessage& message);
std::string Encode(const PrefixMessage& message);
std::string Encode(const RecoverMessage& message);

Result<Plan> DecodePlan(std::span<const std::byte> bytes);
Result<AbortMessage> DecodeAbort(std::span<const std::byte> bytes);
Result<LostMessage> DecodeLost(std::span<const std::byte> bytes);
Result<FenceMessage> DecodeFence(std::span<const std::byte> bytes);
Result<PrefixMessage> DecodePrefix(std::span<const std::byte> bytes);
Result<RecoverMessage> DecodeRecover(std::span<const std::byte> bytes);

}  // namespace muster::collective
