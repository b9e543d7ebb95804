#include "collective/wire/decoder.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <vector>

#include "collective/wire/wire_samples.h"

namespace muster::collective {
namespace {

// Keeps what arrives; drops frames of the ranks it is told to.
class Keeper : public FrameSink {
 public:
  std::byte* Place(const FrameHeader& header) override {
    if (header.rank == drop_rank) return nullptr;
    places.push_back(std::make_unique<std::byte[]>(PayloadBytes(header)));
    return places.back().get();
  }
  void Arrived(const FrameHeader& header, std::span<const std::byte> payload) override {
    if (IsData(header.type) && !payload.empty()) {
      EXPECT_EQ(payload.data(), places.back().get());
    }
    seen.push_back(
        {header, std::string(reinterpret_cast<const char*>(payload.data()), payload.size())});
  }

  uint16_t drop_rank = 77;
  std::vector<std::unique_ptr<std::byte[]>> places;
  std::vector<std::pair<FrameHeader, std::string>> seen;
};

std::string Stream(std::vector<std::pair<FrameHeader, std::string>>& expected, uint16_t drop_rank) {
  std::string bytes;
  const auto count = *rc::gen::inRange(0, 12);
  const std::vector<Sample> samples = Samples();
  for (int i = 0; i < count; ++i) {
    Sample sample = samples[*rc::gen::inRange<size_t>(0, samples.size())];
    if (IsData(sample.header.type)) {
      FrameHeader header = sample.header;
      header.rank = *rc::gen::elementOf(std::vector<uint16_t>{3, drop_rank});
      header.total = header.offset = uint64_t{1} << 20;
      const auto size = *rc::gen::elementOf(std::vector<uint32_t>{0, 4, 400, 40000});
      header.total += std::max(size, header.length);
      const std::string payload(size, static_cast<char>('a' + i));
      sample = MakeSample(header, (header.flags & kFlagEmpty) != 0 ? "" : payload);
    }
    bytes += sample.frame;
    const bool dropped = IsData(sample.header.type) && sample.header.rank == drop_rank &&
                         PayloadBytes(sample.header) > 0;
    if (dropped) continue;
    expected.emplace_back(sample.header,
                          sample.frame.substr(kHeaderBytes, PayloadBytes(sample.header)));
  }
  return bytes;
}

// As a transport does it: as many bytes as come, into the places wanted.
Status ReadAsTransport(FrameDecoder& decoder, std::string_view bytes) {
  while (!bytes.empty()) {
    size_t size =
        *rc::gen::oneOf(rc::gen::inRange<size_t>(1, 100), rc::gen::inRange<size_t>(1, 100000));
    size = std::min(size, bytes.size());
    size_t got = 0;
    for (const std::span<std::byte> place : decoder.Want()) {
      const size_t part = std::min(place.size(), size - got);
      if (part > 0) std::memcpy(place.data(), bytes.data() + got, part);
      got += part;
    }
    MUSTER_TRY(decoder.Got(got));
    bytes.remove_prefix(got);
  }
  return {};
}

RC_GTEST_PROP(DecoderProperties, FramesArriveWholeHoweverTheyAreCut, ()) {
  Keeper keeper;
  std::vector<std::pair<FrameHeader, std::string>> expected;
  const std::string bytes = Stream(expected, keeper.drop_rank);
  FrameDecoder decoder(keeper);
  decoder.AllowOnlyHandshake(false);
  RC_ASSERT(ReadAsTransport(decoder, bytes).has_value());
  RC_ASSERT(keeper.seen == expected);
}

TEST(DecoderTest, SteadyDataCostsOneReadForEachFrame) {
  FrameHeader header = Samples()[0].header;
  header.offset = 0;
  header.total = 65536;
  const std::string frame = MakeSample(header, std::string(65536, 'x')).frame;
  std::string bytes;
  for (int i = 0; i < 10; ++i) bytes += frame;
  Keeper keeper;
  FrameDecoder decoder(keeper);
  decoder.AllowOnlyHandshake(false);
  int reads = 0;
  for (size_t at = 0; at < bytes.size(); ++reads) {
    size_t got = 0;
    for (const std::span<std::byte> place : decoder.Want()) {
      const size_t part = std::min(place.size(), bytes.size() - at - got);
      if (part > 0) std::memcpy(place.data(), bytes.data() + at + got, part);
      got += part;
    }
    ASSERT_TRUE(decoder.Got(got));
    at += got;
  }
  EXPECT_EQ(reads, 11);
  EXPECT_EQ(keeper.seen.size(), 10u);
}

TEST(DecoderTest, SaysHowMuchOfAPayloadIsInPlace) {
  Keeper keeper;
  FrameDecoder decoder(keeper);
  decoder.AllowOnlyHandshake(false);
  const std::string frame = Samples()[0].frame;
  ASSERT_TRUE(decoder.Feed(std::as_bytes(std::span(frame)).first(kHeaderBytes + 5)));
  EXPECT_EQ(decoder.PartialBytes(), 5u);
  EXPECT_EQ(decoder.header(), Samples()[0].header);
  ASSERT_TRUE(decoder.Feed(std::as_bytes(std::span(frame)).subspan(kHeaderBytes + 5)));
  EXPECT_EQ(decoder.PartialBytes(), 0u);
}

TEST(DecoderTest, AnAbandonedPlaceIsNotWrittenTo) {
  Keeper keeper;
  FrameDecoder decoder(keeper);
  decoder.AllowOnlyHandshake(false);
  const std::string frame = Samples()[0].frame;
  ASSERT_TRUE(decoder.Feed(std::as_bytes(std::span(frame)).first(kHeaderBytes + 5)));
  decoder.DropPayload();
  keeper.places.clear();
  ASSERT_TRUE(decoder.Feed(std::as_bytes(std::span(frame)).subspan(kHeaderBytes + 5)));
  EXPECT_TRUE(keeper.seen.empty());
  ASSERT_TRUE(decoder.Feed(std::as_bytes(std::span(frame))));
  EXPECT_EQ(keeper.seen.size(), 1u);
}

TEST(DecoderTest, DamageOfACheckedFrameIsFound) {
  const Sample sample = Samples()[1];
  for (size_t at = kHeaderBytes; at < sample.frame.size(); ++at) {
    std::string bytes = sample.frame;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    Keeper keeper;
    FrameDecoder decoder(keeper);
    decoder.AllowOnlyHandshake(false);
    const Status status = decoder.Feed(std::as_bytes(std::span(bytes)));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kDataLoss);
    EXPECT_TRUE(keeper.seen.empty());
    EXPECT_FALSE(decoder.Got(0));  // for good
  }
}

TEST(DecoderTest, StrangersMayOnlyShakeHands) {
  for (const Sample& sample : Samples()) {
    Keeper keeper;
    FrameDecoder decoder(keeper);
    EXPECT_EQ(decoder.Feed(std::as_bytes(std::span(sample.frame))).has_value(),
              IsHandshake(sample.header.type))
        << sample.name;
  }
}

}  // namespace
}  // namespace muster::collective
