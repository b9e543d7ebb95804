#include "collective/kernels/reduce.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <tuple>
#include <vector>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace muster::collective {
namespace {

using Bytes = std::vector<std::byte>;

// Numbers that break kernels: NaNs of all kinds, infinities, zeros of both signs, subnormals, and
// values that round; the rest random bits.
uint64_t Awkward(DataType type, std::mt19937_64& random) {
  static constexpr uint32_t kFloat32[] = {
      0,          0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001,
      0x00000001, 0x807FFFFF, 0x7F7FFFFF, 0x3F800000, 0xBF800000, 0x00800000};
  static constexpr uint16_t kFloat16[] = {0,      0x8000, 0x7C00, 0xFC00, 0x7E00, 0xFE55,
                                          0x7C01, 0x0001, 0x83FF, 0x7BFF, 0x3C00, 0x0400};
  if (random() % 3 != 0) return random();
  switch (type) {
    case DataType::kFloat16:
      return kFloat16[random() % std::size(kFloat16)];
    case DataType::kBfloat16:
      return kFloat32[random() % std::size(kFloat32)] >> 16;
    case DataType::kFloat64: {
      const auto narrow = std::bit_cast<float>(kFloat32[random() % std::size(kFloat32)]);
      return random() % 2 == 0 ? std::bit_cast<uint64_t>(static_cast<double>(narrow))
                               : random() % 4;
    }
    default:
      return kFloat32[random() % std::size(kFloat32)];
  }
}

// Moderate numbers, so that sums are not all NaN and infinity.
uint64_t Moderate(DataType type, std::mt19937_64& random) {
  const float value = std::uniform_real_distribution<float>(-4, 4)(random);
  switch (type) {
    case DataType::kFloat32:
      return std::bit_cast<uint32_t>(value);
    case DataType::kFloat64:
      return std::bit_cast<uint64_t>(value * 1.000000001);
    case DataType::kFloat16:  // sign, exponent from 12 to 17
      return (random() & 0x83FF) | (12 + random() % 6) << 10;
    case DataType::kBfloat16:
      return std::bit_cast<uint32_t>(value) >> 16;
    default:
      return random();
  }
}

struct Input {
  std::vector<Bytes> storage;
  std::vector<const std::byte*> ranks;
};

Input MakeInput(DataType type, size_t ranks, size_t count, bool awkward, std::mt19937_64& random) {
  Input input;
  for (size_t r = 0; r < ranks; ++r) {
    const size_t shift = random() % 17;
    Bytes bytes(shift + count * SizeOf(type));
    for (size_t i = 0; i < count; ++i) {
      const uint64_t bits = awkward ? Awkward(type, random) : Moderate(type, random);
      std::memcpy(bytes.data() + shift + i * SizeOf(type), &bits, SizeOf(type));
    }
    input.storage.push_back(std::move(bytes));
    input.ranks.push_back(input.storage.back().data() + shift);
  }
  return input;
}

std::vector<int64_t> Targets() {
  std::vector<int64_t> targets;
  for (int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    targets.push_back(rest & -rest);
  }
  return targets;
}

class ReduceTest : public testing::TestWithParam<std::tuple<DataType, ReduceOp>> {
 protected:
  ~ReduceTest() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(ReduceTest, EveryInstructionSetMatchesTheReferenceBitForBit) {
  const auto [type, op] = GetParam();
  std::mt19937_64 random(static_cast<uint64_t>(type) * 100 + static_cast<uint64_t>(op));
  for (const int64_t target : Targets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const size_t count : {0, 1, 2, 3, 7, 15, 16, 17, 31, 63, 64, 65, 127, 257, 1000, 4099}) {
      for (const size_t n : {1, 2, 3, 8}) {
        const bool awkward = random() % 2 == 0;
        const Input input = MakeInput(type, n, count, awkward, random);
        const Reduction reduction{type, op, static_cast<uint32_t>(n + random() % 2)};
        Bytes want(count * SizeOf(type));
        ReduceReference(reduction, input.ranks, want.data(), count);
        // One byte before and after, to see a kernel that writes too much; out is not aligned.
        Bytes got(count * SizeOf(type) + 2, std::byte{0xA5});
        Reduce(reduction, input.ranks, got.data() + 1, count);
        ASSERT_TRUE(std::equal(want.begin(), want.end(), got.begin() + 1))
            << hwy::TargetName(target) << " " << Name(type) << " " << Name(op) << " " << count
            << " elements of " << n << " ranks";
        ASSERT_TRUE(got.front() == std::byte{0xA5} && got.back() == std::byte{0xA5});
      }
    }
  }
}

TEST_P(ReduceTest, InPlaceIntoAnyRank) {
  const auto [type, op] = GetParam();
  std::mt19937_64 random(7);
  const size_t count = 333;
  for (size_t target = 0; target < 4; ++target) {
    Input input = MakeInput(type, 4, count, true, random);
    Bytes want(count * SizeOf(type));
    const Reduction reduction{type, op, 4};
    ReduceReference(reduction, input.ranks, want.data(), count);
    auto* out = const_cast<std::byte*>(input.ranks[target]);
    Reduce(reduction, input.ranks, out, count);
    ASSERT_EQ(std::memcmp(out, want.data(), want.size()), 0);
  }
}

TEST_P(ReduceTest, AnyCutIntoChunksGivesTheSameBits) {
  const auto [type, op] = GetParam();
  std::mt19937_64 random(9);
  const size_t count = 5000;
  const Input input = MakeInput(type, 5, count, true, random);
  const Reduction reduction{type, op, 5};
  Bytes whole(count * SizeOf(type));
  Reduce(reduction, input.ranks, whole.data(), count);
  for (int round = 0; round < 5; ++round) {
    Bytes parts(whole.size());
    for (size_t at = 0; at < count;) {
      const size_t part = std::min<size_t>(1 + random() % 700, count - at);
      std::vector<const std::byte*> ranks;
      for (const std::byte* rank : input.ranks) ranks.push_back(rank + at * SizeOf(type));
      Reduce(reduction, ranks, parts.data() + at * SizeOf(type), part);
      at += part;
    }
    ASSERT_EQ(parts, whole);
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypesAndOps, ReduceTest,
                         testing::Combine(testing::ValuesIn(kDataTypes),
                                          testing::ValuesIn(kReduceOps)));

template <typename T>
T One(const Reduction& reduction, std::vector<T> values) {
  std::vector<const std::byte*> ranks;
  for (const T& value : values) ranks.push_back(reinterpret_cast<const std::byte*>(&value));
  T out;
  Reduce(reduction, ranks, reinterpret_cast<std::byte*>(&out), 1);
  return out;
}

TEST(ReduceMeaning, FloatsInRankOrder) {
  const Reduction sum{DataType::kFloat32, ReduceOp::kSum};
  EXPECT_EQ(One<float>(sum, {1e30f, -1e30f, 1}), 1);
  EXPECT_EQ(One<float>(sum, {1e30f, 1, -1e30f}), 0);
  EXPECT_EQ(One<float>({DataType::kFloat32, ReduceOp::kAverage, 4}, {1, 2, 3, 4}), 2.5f);
  EXPECT_EQ(One<double>({DataType::kFloat64, ReduceOp::kProduct}, {1.5, 2, -4}), -12);
  EXPECT_TRUE(std::signbit(One<float>({DataType::kFloat32, ReduceOp::kMin}, {-0.0f, 0.0f})));
  EXPECT_FALSE(std::signbit(One<float>({DataType::kFloat32, ReduceOp::kMax}, {0.0f, -0.0f})));
  const auto minimum = One<float>({DataType::kFloat32, ReduceOp::kMin}, {-NAN, 1, 2});
  EXPECT_EQ(std::bit_cast<uint32_t>(minimum), 0x7FC00000u);
}

TEST(ReduceMeaning, SixteenBitFloatsAreRoundedOnce) {
  // 2048 + 1 + 1: each step in float16 would round back to 2048.
  EXPECT_EQ(One<uint16_t>({DataType::kFloat16, ReduceOp::kSum}, {0x6800, 0x3C00, 0x3C00}), 0x6801);
  // 256 + 1 + 1 in bfloat16 likewise.
  EXPECT_EQ(One<uint16_t>({DataType::kBfloat16, ReduceOp::kSum}, {0x4380, 0x3F80, 0x3F80}), 0x4381);
}

TEST(ReduceMeaning, IntegersWrapAndAverageTowardZero) {
  EXPECT_EQ(One<int8_t>({DataType::kInt8, ReduceOp::kSum}, {127, 1}), -128);
  EXPECT_EQ(One<int8_t>({DataType::kInt8, ReduceOp::kAverage, 2}, {127, 127}), 127);
  EXPECT_EQ(One<int32_t>({DataType::kInt32, ReduceOp::kAverage, 2}, {-3, 0}), -1);
  EXPECT_EQ(One<uint8_t>({DataType::kUint8, ReduceOp::kProduct}, {16, 17}), 16);
  EXPECT_EQ(One<int64_t>({DataType::kInt64, ReduceOp::kProduct}, {int64_t{1} << 62, 6}), INT64_MIN);
}

#if defined(__SSE__)
TEST(ReduceMeaning, SubnormalsCountEvenWhereTheThreadTurnedThemOff) {
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | 0x8040);
  const auto sum = One<uint32_t>({DataType::kFloat32, ReduceOp::kSum}, {1, 1});
  const unsigned after = _mm_getcsr();
  _mm_setcsr(saved);
  EXPECT_EQ(sum, 2u);
  EXPECT_EQ(after & 0x8040, 0x8040u);
}
#endif

RC_GTEST_PROP(Bfloat16OnTheWire, NarrowsLikeTheReferenceAndWidensExactly, ()) {
  const auto bits = *rc::gen::arbitrary<std::vector<uint32_t>>();
  std::vector<uint16_t> narrow(bits.size());
  NarrowToBfloat16(reinterpret_cast<const std::byte*>(bits.data()),
                   reinterpret_cast<std::byte*>(narrow.data()), bits.size());
  std::vector<uint32_t> wide(bits.size());
  WidenBfloat16(reinterpret_cast<const std::byte*>(narrow.data()),
                reinterpret_cast<std::byte*>(wide.data()), bits.size());
  for (size_t i = 0; i < bits.size(); ++i) {
    RC_ASSERT(wide[i] == uint32_t{narrow[i]} << 16);
    const auto value = std::bit_cast<float>(bits[i]);
    const auto back = std::bit_cast<float>(wide[i]);
    RC_ASSERT(std::isnan(value) == std::isnan(back));
    if (std::isfinite(value) && std::isfinite(back)) {
      RC_ASSERT(std::abs(value - back) <= std::ldexp(std::abs(value), -8) + 1e-40f);
    }
  }
}

}  // namespace
}  // namespace muster::collective
