#include "collective/wire/frame.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>
#include <string>

#include "base/file.h"
#include "collective/wire/handshake.h"
#include "collective/wire/messages.h"
#include "collective/wire/wire_samples.h"

namespace muster::collective {
namespace {

TEST(FrameTest, HeadersComeBack) {
  for (const Sample& sample : Samples()) {
    const auto header = DecodeHeader(EncodeHeader(sample.header));
    ASSERT_TRUE(header) << sample.name << ": " << header.error().message;
    EXPECT_EQ(*header, sample.header) << sample.name;
  }
}

// The bytes are a promise to other implementations. MUSTER_UPDATE_GOLDEN=1 writes the file anew.
TEST(FrameTest, BytesAreAsPromised) {
  const std::string path = MUSTER_SOURCE_DIR "/src/collective/wire/testdata/frames.txt";
  std::string text;
  for (const Sample& sample : Samples()) text += sample.name + "\n" + HexDump(sample.frame) + "\n";
  if (std::getenv("MUSTER_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(WriteFileAtomic(path, text));
  }
  const auto golden = ReadFile(path);
  ASSERT_TRUE(golden) << golden.error().message;
  EXPECT_EQ(text, *golden);
}

void ExpectRefused(const FrameHeader& header, const char* why) {
  EXPECT_FALSE(DecodeHeader(EncodeHeader(header))) << why;
}

TEST(FrameTest, BrokenRulesAreRefused) {
  const FrameHeader good = Samples()[0].header;
  ASSERT_TRUE(DecodeHeader(EncodeHeader(good)));
  FrameHeader bad = good;
  bad.type = FrameType{200};
  ExpectRefused(bad, "type");
  bad = good;
  bad.flags = 0x80;
  ExpectRefused(bad, "flags");
  bad = good;
  bad.dtype = DataType{0};
  ExpectRefused(bad, "dtype");
  bad = good;
  bad.op = ReduceOp{9};
  ExpectRefused(bad, "op");
  bad = good;
  bad.collective = Collective{0};
  ExpectRefused(bad, "collective");
  bad = good;
  bad.length = kDataBytesMax + 4;
  bad.total = uint64_t{1} << 40;
  ExpectRefused(bad, "length");
  bad = good;
  bad.offset = bad.total;
  ExpectRefused(bad, "beyond the end");
  bad = good;
  bad.offset = ~uint64_t{3};
  ExpectRefused(bad, "an offset that overflows");
  bad = good;
  bad.offset += 2;
  ExpectRefused(bad, "an element cut in two");
  FrameHeader control{.type = FrameType::kHeartbeat};
  ASSERT_TRUE(DecodeHeader(EncodeHeader(control)));
  control.length = kControlBytesMax + 1;
  ExpectRefused(control, "control length");
  control = {.type = FrameType::kHello, .length = kHandshakeBytesMax + 1};
  ExpectRefused(control, "handshake length");
  control = {.type = FrameType::kHeartbeat, .dtype = DataType::kInt8};
  ExpectRefused(control, "control with a dtype");
  control = {.type = FrameType::kHeartbeat, .flags = kFlagEmpty};
  ExpectRefused(control, "control with the empty flag");
  HeaderBytes bytes = EncodeHeader(good);
  bytes[0] ^= std::byte{1};
  EXPECT_FALSE(DecodeHeader(bytes));
  bytes = EncodeHeader(good);
  bytes[2] = std::byte{2};
  EXPECT_NE(DecodeHeader(bytes).error().message.find("version 2"), std::string::npos);
}

RC_GTEST_PROP(FrameProperties, WhateverIsAcceptedIsWrittenTheSame, ()) {
  HeaderBytes bytes = EncodeHeader(Samples()[0].header);
  const int changes = *rc::gen::inRange(0, 4);
  for (int i = 0; i < changes; ++i) {
    bytes[*rc::gen::inRange<size_t>(0, kHeaderBytes)] =
        static_cast<std::byte>(*rc::gen::arbitrary<uint8_t>());
  }
  const auto header = DecodeHeader(bytes);
  if (header) RC_ASSERT(EncodeHeader(*header) == bytes);
}

}  // namespace
}  // namespace muster::collective
