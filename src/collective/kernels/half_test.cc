#include "collective/kernels/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace muster::collective {
namespace {

// A float16 by its definition, in exact double arithmetic.
double ValueOfFloat16(uint16_t bits) {
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = (bits >> 10) & 0x1F;
  const double fraction = bits & 0x3FF;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(HalfTest, EveryFloat16HasItsValueAndComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float wide = Float16ToFloat(static_cast<uint16_t>(bits));
    if ((bits & 0x7C00) == 0x7C00) {
      EXPECT_EQ(std::isnan(wide), (bits & 0x3FF) != 0);
      EXPECT_EQ(std::isinf(wide), (bits & 0x3FF) == 0);
    } else {
      EXPECT_EQ(wide, ValueOfFloat16(static_cast<uint16_t>(bits)));
    }
    if (std::isnan(wide)) {
      EXPECT_EQ(FloatToFloat16(wide), 0x7E00);
    } else {
      EXPECT_EQ(FloatToFloat16(wide), bits);
    }
  }
}

// Between two neighbours: below the middle the lower, above it the upper, on it the even one.
TEST(HalfTest, Float16RoundsToNearestEven) {
  for (uint32_t low = 0; low < 0x7BFF; ++low) {
    const double a = ValueOfFloat16(static_cast<uint16_t>(low));
    const double b = ValueOfFloat16(static_cast<uint16_t>(low + 1));
    const auto middle = static_cast<float>((a + b) / 2);
    EXPECT_EQ(FloatToFloat16(middle), low % 2 == 0 ? low : low + 1);
    EXPECT_EQ(FloatToFloat16(std::nextafter(middle, 0.0f)), low);
    EXPECT_EQ(FloatToFloat16(std::nextafter(middle, 1e9f)), low + 1);
  }
  EXPECT_EQ(FloatToFloat16(65519.996f), 0x7BFF);
  EXPECT_EQ(FloatToFloat16(65520.0f), 0x7C00);
  EXPECT_EQ(FloatToFloat16(-1e30f), 0xFC00);
  EXPECT_EQ(FloatToFloat16(-1e-30f), 0x8000);
}

TEST(HalfTest, Bfloat16RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float wide = Bfloat16ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(wide)) {
      EXPECT_EQ(FloatToBfloat16(wide), 0x7FC0);
      continue;
    }
    EXPECT_EQ(FloatToBfloat16(wide), bits);
    if (std::isinf(wide)) continue;
    const auto middle = std::bit_cast<float>(bits << 16 | 0x8000);
    EXPECT_EQ(FloatToBfloat16(middle), bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(FloatToBfloat16(std::bit_cast<float>(bits << 16 | 0x7FFF)), bits);
    EXPECT_EQ(FloatToBfloat16(std::bit_cast<float>(bits << 16 | 0x8001)), bits + 1);
  }
}

}  // namespace
}  // namespace muster::collective
