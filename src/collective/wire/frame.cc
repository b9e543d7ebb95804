#include "collective/wire/frame.h"

#include "collective/wire/bytes.h"

namespace muster::collective {
namespace {

// Where each field lies. The order is that of FrameHeader but for magic and version in front.
constexpr size_t kAtMagic = 0;
constexpr size_t kAtVersion = 2;
constexpr size_t kAtType = 3;
constexpr size_t kAtFlags = 4;
constexpr size_t kAtDtype = 5;
constexpr size_t kAtOp = 6;
constexpr size_t kAtCollective = 7;
constexpr size_t kAtJob = 8;
constexpr size_t kAtGroup = 16;
constexpr size_t kAtEpoch = 20;
constexpr size_t kAtSequence = 24;
constexpr size_t kAtOffset = 32;
constexpr size_t kAtTotal = 40;
constexpr size_t kAtChunk = 48;
constexpr size_t kAtLength = 56;
constexpr size_t kAtRank = 60;
constexpr size_t kAtRoot = 62;

Status CheckData(const FrameHeader& header) {
  if (!IsValid(header.dtype) || !IsValid(header.op) || !IsValid(header.collective)) {
    return Fail(Code::kInvalidArgument, "a {} frame of type {}, reduction {}, collective {}",
                Name(header.type), static_cast<int>(header.dtype), static_cast<int>(header.op),
                static_cast<int>(header.collective));
  }
  if (header.length > kDataBytesMax) {
    return Fail(Code::kInvalidArgument, "a {} frame of {} bytes; the most are {}",
                Name(header.type), header.length, kDataBytesMax);
  }
  if (header.offset > header.total || header.length > header.total - header.offset) {
    return Fail(Code::kInvalidArgument, "a {} frame of {} bytes at {} of a payload of {}",
                Name(header.type), header.length, header.offset, header.total);
  }
  if (header.length % SizeOf(header.dtype) != 0 || header.offset % SizeOf(header.dtype) != 0) {
    return Fail(Code::kInvalidArgument, "a {} frame of {} bytes at {} that cuts a {}",
                Name(header.type), header.length, header.offset, Name(header.dtype));
  }
  return {};
}

Status CheckControl(const FrameHeader& header) {
  if (header.dtype != DataType{} || header.op != ReduceOp{} || header.collective != Collective{}) {
    return Fail(Code::kInvalidArgument, "a {} frame with an element type", Name(header.type));
  }
  if ((header.flags & kFlagEmpty) != 0) {
    return Fail(Code::kInvalidArgument, "a {} frame with the flag for empty data",
                Name(header.type));
  }
  const uint32_t most = IsHandshake(header.type) ? kHandshakeBytesMax : kControlBytesMax;
  if (header.length > most) {
    return Fail(Code::kInvalidArgument, "a {} frame of {} bytes; the most are {}",
                Name(header.type), header.length, most);
  }
  return {};
}

}  // namespace

std::string_view Name(FrameType type) {
  switch (type) {
    case FrameType::kHello:
      return "HELLO";
    case FrameType::kChallenge:
      return "CHALLENGE";
    case FrameType::kProof:
      return "PROOF";
    case FrameType::kWelcome:
      return "WELCOME";
    case FrameType::kRefused:
      return "REFUSED";
    case FrameType::kHeartbeat:
      return "HEARTBEAT";
    case FrameType::kGoodbye:
      return "GOODBYE";
    case FrameType::kAbort:
      return "ABORT";
    case FrameType::kContribution:
      return "CONTRIBUTION";
    case FrameType::kResult:
      return "RESULT";
    case FrameType::kPass:
      return "PASS";
    case FrameType::kPlan:
      return "PLAN";
    case FrameType::kLost:
      return "LOST";
    case FrameType::kFence:
      return "FENCE";
    case FrameType::kPrefix:
      return "PREFIX";
    case FrameType::kRecover:
      return "RECOVER";
  }
  return "";
}

HeaderBytes EncodeHeader(const FrameHeader& header) {
  HeaderBytes bytes;
  std::byte* const to = bytes.data();
  PutLittle(kMagic, to + kAtMagic);
  PutLittle(kProtocolVersion, to + kAtVersion);
  PutLittle(static_cast<uint8_t>(header.type), to + kAtType);
  PutLittle(header.flags, to + kAtFlags);
  PutLittle(static_cast<uint8_t>(header.dtype), to + kAtDtype);
  PutLittle(static_cast<uint8_t>(header.op), to + kAtOp);
  PutLittle(static_cast<uint8_t>(header.collective), to + kAtCollective);
  PutLittle(header.job, to + kAtJob);
  PutLittle(header.group, to + kAtGroup);
  PutLittle(header.epoch, to + kAtEpoch);
  PutLittle(header.sequence, to + kAtSequence);
  PutLittle(header.offset, to + kAtOffset);
  PutLittle(header.total, to + kAtTotal);
  PutLittle(header.chunk, to + kAtChunk);
  PutLittle(header.length, to + kAtLength);
  PutLittle(header.rank, to + kAtRank);
  PutLittle(header.root, to + kAtRoot);
  return bytes;
}

Result<FrameHeader> DecodeHeader(std::span<const std::byte, kHeaderBytes> bytes) {
  const std::byte* const from = bytes.data();
  if (GetLittle<uint16_t>(from + kAtMagic) != kMagic) {
    return Fail(Code::kInvalidArgument, "this is not Muster's reduction protocol");
  }
  if (const auto version = GetLittle<uint8_t>(from + kAtVersion); version != kProtocolVersion) {
    return Fail(Code::kInvalidArgument, "protocol version {}; this program speaks {}", version,
                kProtocolVersion);
  }
  FrameHeader header;
  header.type = FrameType{GetLittle<uint8_t>(from + kAtType)};
  header.flags = GetLittle<uint8_t>(from + kAtFlags);
  header.dtype = DataType{GetLittle<uint8_t>(from + kAtDtype)};
  header.op = ReduceOp{GetLittle<uint8_t>(from + kAtOp)};
  header.collective = Collective{GetLittle<uint8_t>(from + kAtCollective)};
  header.job = GetLittle<uint64_t>(from + kAtJob);
  header.group = GetLittle<uint32_t>(from + kAtGroup);
  header.epoch = GetLittle<uint32_t>(from + kAtEpoch);
  header.sequence = GetLittle<uint64_t>(from + kAtSequence);
  header.offset = GetLittle<uint64_t>(from + kAtOffset);
  header.total = GetLittle<uint64_t>(from + kAtTotal);
  header.chunk = GetLittle<uint64_t>(from + kAtChunk);
  header.length = GetLittle<uint32_t>(from + kAtLength);
  header.rank = GetLittle<uint16_t>(from + kAtRank);
  header.root = GetLittle<uint16_t>(from + kAtRoot);
  if (Name(header.type).empty()) {
    return Fail(Code::kInvalidArgument, "a frame of unknown type {}",
                static_cast<int>(header.type));
  }
  if ((header.flags & ~kFlagsKnown) != 0) {
    return Fail(Code::kInvalidArgument, "a {} frame with unknown flags {:#x}", Name(header.type),
                header.flags);
  }
  MUSTER_TRY(IsData(header.type) ? CheckData(header) : CheckControl(header));
  return header;
}

}  // namespace muster::collective
