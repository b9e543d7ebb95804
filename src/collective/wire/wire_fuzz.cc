// Nothing that a peer sends may crash the decoder, the messages or the handshake. The first byte of
// the input says how the rest is cut.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "collective/wire/decoder.h"
#include "collective/wire/handshake.h"
#include "collective/wire/messages.h"

namespace muster::collective {
namespace {

template <typename Decoded>
void CheckWrittenTheSame(const Decoded& decoded, std::span<const std::byte> bytes) {
  if (!decoded) return;
  const std::string again = Encode(*decoded);
  MUSTER_CHECK(again.size() == bytes.size() &&
               std::memcmp(again.data(), bytes.data(), again.size()) == 0);
}

class Sink : public FrameSink {
 public:
  Sink()
      : client_({.job = 1, .rank = 0, .workers = 2}, 1, Nonce{}, MacOf),
        server_(Nonce{}, [](const PeerIdentity&) -> Result<ServerHandshake::Admission> {
          return ServerHandshake::Admission{1, MacOf};
        }) {}

  std::byte* Place(const FrameHeader& header) override {
    if (header.rank == 0xDEAD) return nullptr;
    place_.assign(PayloadBytes(header), std::byte{0});
    return place_.data();
  }

  void Arrived(const FrameHeader& header, std::span<const std::byte> payload) override {
    MUSTER_CHECK(payload.size() == PayloadBytes(header));
    switch (header.type) {
      case FrameType::kPlan:
        return CheckWrittenTheSame(DecodePlan(payload), payload);
      case FrameType::kAbort:
        return CheckWrittenTheSame(DecodeAbort(payload), payload);
      case FrameType::kLost:
        return CheckWrittenTheSame(DecodeLost(payload), payload);
      case FrameType::kFence:
        return CheckWrittenTheSame(DecodeFence(payload), payload);
      case FrameType::kPrefix:
        return CheckWrittenTheSame(DecodePrefix(payload), payload);
      case FrameType::kRecover:
        return CheckWrittenTheSame(DecodeRecover(payload), payload);
      default:
        break;
    }
    if (IsHandshake(header.type)) {
      (void)client_.On(header, payload);
      (void)server_.On(header, payload);
    }
  }

 private:
  static Mac MacOf(std::span<const std::byte> message) {
    Mac mac{};
    for (size_t i = 0; i < message.size(); ++i) mac[i % mac.size()] ^= message[i];
    return mac;
  }

  ClientHandshake client_;
  ServerHandshake server_;
  std::vector<std::byte> place_;
};

}  // namespace
}  // namespace muster::collective

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::collective;
  if (size == 0) return 0;
  const size_t piece = 1 + data[0] % 97;
  Sink sink;
  FrameDecoder decoder(sink);
  decoder.AllowOnlyHandshake(data[0] >= 0xF0);
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  for (size_t at = 0; at < bytes.size();) {
    size_t got = 0;
    for (const std::span<std::byte> place : decoder.Want()) {
      const size_t part = std::min({place.size(), piece - got, bytes.size() - at - got});
      if (part > 0) std::memcpy(place.data(), bytes.data() + at + got, part);
      got += part;
    }
    if (!decoder.Got(got)) break;
    at += got;
  }
  return 0;
}
