#include "collective/wire/decoder.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "collective/wire/bytes.h"
#include "collective/wire/crc32c.h"

namespace muster::collective {
namespace {

constexpr size_t kBinBytes = 16u << 10;

}  // namespace

size_t FrameDecoder::PartBytes() const {
  switch (part_) {
    case Part::kHeader:
      return kHeaderBytes;
    case Part::kPayload:
      return PayloadBytes(header_);
    case Part::kChecksum:
      return kChecksumBytes;
  }
  return 0;
}

std::array<std::span<std::byte>, 2> FrameDecoder::Want() {
  const size_t left = PartBytes() - got_;
  const bool checked = (header_.flags & kFlagChecked) != 0;
  switch (part_) {
    case Part::kHeader:
      return {std::span(header_bytes_).subspan(got_), {}};
    case Part::kChecksum:
      return {std::span(checksum_).subspan(got_), next_header_bytes_};
    case Part::kPayload:
      if (drop_) return {std::span(control_).first(std::min(left, control_.size())), {}};
      return {std::span(place_ + got_, left),
              checked ? std::span<std::byte>(checksum_) : std::span<std::byte>(next_header_bytes_)};
  }
  return {};
}

Status FrameDecoder::Got(size_t bytes) {
  if (failed_) return Fail(Code::kFailedPrecondition, "the connection has failed before");
  // What was read beyond the part under way lies in the second place, which a header or a checksum
  // is expected to fill.
  const size_t first = std::min(bytes, Want()[0].size());
  const size_t second = bytes - first;
  const bool into_checksum = part_ == Part::kPayload && (header_.flags & kFlagChecked) != 0;
  MUSTER_CHECK(second <= Want()[1].size());
  Status status = Take(first);
  if (status && second > 0) {
    if (!into_checksum) std::memcpy(header_bytes_.data(), next_header_bytes_.data(), second);
    status = Take(second);
  }
  failed_ = !status;
  return status;
}

Status FrameDecoder::Feed(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto want = Want()[0];
    const size_t take = std::min(want.size(), bytes.size());
    std::memcpy(want.data(), bytes.data(), take);
    MUSTER_TRY(Got(take));
    bytes = bytes.subspan(take);
  }
  return {};
}

void FrameDecoder::DropPayload() {
  if (part_ == Part::kHeader || drop_) return;
  drop_ = true;
  place_ = nullptr;
  control_.resize(std::max(control_.size(), kBinBytes));
}

size_t FrameDecoder::PartialBytes() const {
  return part_ == Part::kPayload && !drop_ && IsData(header_.type) ? got_ : 0;
}

Status FrameDecoder::Take(size_t bytes) {
  got_ += bytes;
  if (got_ < PartBytes()) return {};
  switch (part_) {
    case Part::kHeader:
      return HeaderDone();
    case Part::kPayload:
      return PayloadDone();
    case Part::kChecksum:
      return FrameDone();
  }
  return {};
}

Status FrameDecoder::HeaderDone() {
  MUSTER_ASSIGN(header_, DecodeHeader(header_bytes_));
  if (only_handshake_ && !IsHandshake(header_.type)) {
    return Fail(Code::kUnauthenticated, "a {} frame before the handshake", Name(header_.type));
  }
  part_ = Part::kPayload;
  got_ = 0;
  drop_ = false;
  const size_t payload = PayloadBytes(header_);
  place_ = nullptr;
  if (payload == 0) return PayloadDone();
  if (IsData(header_.type)) {
    place_ = sink_.Place(header_);
    drop_ = place_ == nullptr;
    if (drop_) control_.resize(std::max(control_.size(), std::min(payload, kBinBytes)));
  } else {
    control_.resize(std::max(control_.size(), payload));
    place_ = control_.data();
  }
  return {};
}

Status FrameDecoder::PayloadDone() {
  if ((header_.flags & kFlagChecked) == 0) return FrameDone();
  part_ = Part::kChecksum;
  got_ = 0;
  return {};
}

Status FrameDecoder::FrameDone() {
  const std::span<const std::byte> payload(place_, drop_ ? 0 : PayloadBytes(header_));
  if ((header_.flags & kFlagChecked) != 0 && !drop_) {
    const uint32_t stated = GetLittle<uint32_t>(checksum_.data());
    const uint32_t found = Crc32c(payload, Crc32c(header_bytes_));
    if (stated != found) {
      return Fail(Code::kDataLoss, "a {} frame whose checksum is {:08x}, but {:08x} was sent",
                  Name(header_.type), found, stated);
    }
  }
  part_ = Part::kHeader;
  got_ = 0;
  if (!drop_) sink_.Arrived(header_, payload);
  return {};
}

}  // namespace muster::collective
