// One frame of every type, for golden files, tests and the fuzzer's first inputs.
#pragma once

#include <string>
#include <vector>

#include "collective/wire/bytes.h"
#include "collective/wire/crc32c.h"
#include "collective/wire/frame.h"
#include "collective/wire/handshake.h"
#include "collective/wire/messages.h"

namespace muster::collective {

struct Sample {
  std::string name;
  FrameHeader header;
  std::string frame;  // header, payload, checksum
};

inline Sample MakeSample(FrameHeader header, const std::string& payload) {
  if ((header.flags & kFlagEmpty) == 0) header.length = static_cast<uint32_t>(payload.size());
  const HeaderBytes bytes = EncodeHeader(header);
  Sample sample{std::string(Name(header.type)), header,
                std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + payload};
  if ((header.flags & kFlagEmpty) != 0) sample.name += " (empty)";
  if ((header.flags & kFlagChecked) != 0) {
    sample.name += " (checked)";
    std::byte checksum[4];
    PutLittle(Crc32c(std::as_bytes(std::span(sample.frame))), checksum);
    sample.frame.append(reinterpret_cast<const char*>(checksum), 4);
  }
  return sample;
}

inline std::vector<Sample> Samples() {
  const FrameHeader data{.type = FrameType::kContribution,
                         .dtype = DataType::kFloat32,
                         .op = ReduceOp::kSum,
                         .collective = Collective::kAllReduce,
                         .job = 0x0123456789ABCDEF,
                         .group = 7,
                         .epoch = 0x10002,
                         .sequence = 41,
                         .offset = 4096,
                         .total = 4104,
                         .chunk = 99,
                         .rank = 3};
  FrameHeader control = data;
  control.dtype = {};
  control.op = {};
  control.collective = {};
  control.sequence = control.offset = control.total = control.chunk = 0;
  const auto with = [](FrameHeader header, FrameType type, uint8_t flags = 0) {
    header.type = type;
    header.flags = flags;
    return header;
  };
  FrameHeader empty = with(data, FrameType::kContribution, kFlagEmpty);
  empty.collective = Collective::kBroadcast;
  empty.root = 2;
  empty.length = 8;
  Plan plan{
      .workers = 2, .reducers = 1, .endpoints = {}, .exchange = {8192, 8}, .whole_bytes = 2048};
  plan.endpoints = {
      {kShareOne / 4, {4096, 2}}, {kShareOne / 4, {4096, 2}}, {kShareOne / 2, {8192, 4}}};
  const std::string payload("\0\0\x80\x3f\0\0\0\x40", 8);
  const std::string introduction = std::string("\2\0\1\0", 4) + std::string(kNonceBytes, '\x11');
  return {
      MakeSample(data, payload),
      MakeSample(with(data, FrameType::kContribution, kFlagChecked), payload),
      MakeSample(empty, ""),
      MakeSample(with(data, FrameType::kResult), payload),
      MakeSample(with(data, FrameType::kPass), payload),
      MakeSample(with(control, FrameType::kHello), introduction),
      MakeSample(with(control, FrameType::kChallenge), introduction),
      MakeSample(with(control, FrameType::kProof), std::string(kMacBytes, '\x22')),
      MakeSample(with(control, FrameType::kWelcome), std::string(kMacBytes, '\x33')),
      MakeSample(with(control, FrameType::kRefused), std::string("\5\0\7\0no such", 11)),
      MakeSample(with(control, FrameType::kHeartbeat), ""),
      MakeSample(with(control, FrameType::kGoodbye), ""),
      MakeSample(with(control, FrameType::kAbort),
                 Encode(AbortMessage{Code::kUnavailable, 5, "rank 5 is gone"})),
      MakeSample(with(control, FrameType::kPlan), Encode(plan)),
      MakeSample(with(control, FrameType::kLost), Encode(LostMessage{2, "connection reset"})),
      MakeSample(with(control, FrameType::kFence), Encode(FenceMessage{2})),
      MakeSample(with(control, FrameType::kPrefix),
                 Encode(PrefixMessage{41, {{0x10001, {12, 64}}}})),
      MakeSample(with(control, FrameType::kRecover),
                 Encode(RecoverMessage{2, 42, {{0x10001, 1, {{12, 64}, {13, 0}}}}, plan})),
  };
}

inline std::string HexDump(const std::string& bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    text += fmt::format("{}{:02x}", i % 16 == 0 ? (i == 0 ? "  " : "\n  ") : " ",
                        static_cast<unsigned char>(bytes[i]));
  }
  return text + "\n";
}

}  // namespace muster::collective
