// 16-bit floating-point numbers, one at a time: the definition that the vector kernels follow.
#pragma once

#include <bit>
#include <cstdint>

namespace muster::collective {

inline constexpr uint32_t kCanonicalNan32 = 0x7FC00000;
inline constexpr uint64_t kCanonicalNan64 = 0x7FF8000000000000;

inline float Bfloat16ToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// To nearest, ties to even; any NaN becomes the canonical one.
inline uint16_t FloatToBfloat16(float value) {
  if (value != value) return kCanonicalNan32 >> 16;
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

inline float Float16ToFloat(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  uint32_t exponent = (bits >> 10) & 0x1F;
  uint32_t fraction = bits & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000 | fraction << 13);
  if (exponent == 0) {
    if (fraction == 0) return std::bit_cast<float>(sign);
    // Subnormal here, normal in float32.
    exponent = 1;
    while ((fraction & 0x400) == 0) {
      fraction <<= 1;
      --exponent;
    }
    fraction &= 0x3FF;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

inline uint16_t FloatToFloat16(float value) {
  if (value != value) return 0x7E00;
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude >= 0x47800000) return sign | 0x7C00;  // 2^16 and above
  // Half of the last place kept, and one more if the place kept is odd, then cut off. A carry out
  // of the fraction raises the exponent, up to infinity, as it should.
  uint32_t shift = 13;
  uint32_t kept = magnitude - (112u << 23);
  if (magnitude < 0x38800000) {               // below 2^-14: subnormal in float16
    if (magnitude < 0x33000000) return sign;  // below 2^-25, which itself is a tie to zero
    shift = 126 - (magnitude >> 23);
    kept = (magnitude & 0x7FFFFF) | 0x800000;
  }
  const uint32_t rounded = kept + (1u << (shift - 1)) - 1 + ((kept >> shift) & 1);
  return static_cast<uint16_t>(sign | rounded >> shift);
}

}  // namespace muster::collective
