// Compiled once for each instruction set by foreach_target.h, and chosen at run time.
//
// One pass over n sources: a strip of four vectors is loaded from the first rank, the other ranks'
// strips are combined into it in registers, and it is stored once. Against pairwise sums that is
// n + 1 memory operations for each element in place of 3(n − 1), and it keeps the order of ranks
// and, for 16-bit numbers, one rounding.
#include "collective/kernels/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collective/kernels/reduce.cc"
#include <hwy/foreach_target.h>
// clang-format would move it before foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <cfenv>
#include <cstring>

#include "base/check.h"
#include "collective/kernels/half.h"
#include "collective/kernels/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace muster::collective {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE void NarrowOne(const uint8_t* from, uint8_t* to) {
  float value;
  std::memcpy(&value, from, 4);
  const uint16_t bits = FloatToBfloat16(value);
  std::memcpy(to, &bits, 2);
}

HWY_INLINE void WidenOne(const uint8_t* from, uint8_t* to) {
  uint16_t bits;
  std::memcpy(&bits, from, 2);
  const float value = Bfloat16ToFloat(bits);
  std::memcpy(to, &value, 4);
}

#if HWY_TARGET == HWY_SCALAR

// No vectors at all: the reference is as good.
void ReduceVectors(const Reduction& reduction, const uint8_t* const* ranks, size_t n, uint8_t* out,
                   size_t count) {
  ReduceReference(reduction, {reinterpret_cast<const std::byte* const*>(ranks), n},
                  reinterpret_cast<std::byte*>(out), count);
}

void NarrowVectors(const uint8_t* from, uint8_t* to, size_t count) {
  for (size_t i = 0; i < count; ++i) NarrowOne(from + 4 * i, to + 2 * i);
}

void WidenVectors(const uint8_t* from, uint8_t* to, size_t count) {
  for (size_t i = 0; i < count; ++i) WidenOne(from + 2 * i, to + 4 * i);
}

#else

// Formats: how elements are stored, and the vector they are combined in. Bytes are loaded as bytes
// and reinterpreted, so that no pointer is ever misaligned for its type.
template <typename T>
struct Plain {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr size_t kSize = sizeof(T);

  static HWY_INLINE V Load(const uint8_t* from) {
    return hn::BitCast(D(), hn::LoadU(hn::Repartition<uint8_t, D>(), from));
  }
  static HWY_INLINE void Store(V v, uint8_t* to) {
    if constexpr (std::is_floating_point_v<T>) {
      using Bits = hn::RebindToUnsigned<D>;
      const V nan = hn::BitCast(
          D(), hn::Set(Bits(), static_cast<hn::TFromD<Bits> >(sizeof(T) == 8 ? kCanonicalNan64
                                                                             : kCanonicalNan32)));
      v = hn::IfThenElse(hn::IsNaN(v), nan, v);
    }
    hn::StoreU(hn::BitCast(hn::Repartition<uint8_t, D>(), v), hn::Repartition<uint8_t, D>(), to);
  }
};

using Float = hn::ScalableTag<float>;
using FloatV = hn::Vec<Float>;
using FloatBits = hn::RebindToUnsigned<Float>;
using Half = hn::Rebind<uint16_t, Float>;  // as many 16-bit lanes as a float vector has lanes
using HalfBytes = hn::Repartition<uint8_t, Half>;

struct Brain {
  using D = Float;
  using V = FloatV;
  static constexpr size_t kSize = 2;

  static HWY_INLINE V Load(const uint8_t* from) {
    const auto half = hn::BitCast(Half(), hn::LoadU(HalfBytes(), from));
    return hn::BitCast(Float(), hn::ShiftLeft<16>(hn::PromoteTo(FloatBits(), half)));
  }
  static HWY_INLINE void Store(V v, uint8_t* to) {
    const FloatBits d;
    auto bits = hn::BitCast(d, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
    bits = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(d, 0x7FFF)), odd));
    const auto nan = hn::BitCast(d, hn::VecFromMask(Float(), hn::IsNaN(v)));
    bits = hn::Or(hn::AndNot(nan, bits), hn::And(nan, hn::Set(d, kCanonicalNan32 >> 16)));
    hn::StoreU(hn::BitCast(HalfBytes(), hn::TruncateTo(Half(), bits)), HalfBytes(), to);
  }
};

// Whether vectors convert float16 by an instruction with the right rounding.
#undef MUSTER_HALF_IN_HARDWARE
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || \
    HWY_ARCH_ARM_A64
#define MUSTER_HALF_IN_HARDWARE 1
#else
#define MUSTER_HALF_IN_HARDWARE 0
#endif

struct Ieee {
  using D = Float;
  using V = FloatV;
  static constexpr size_t kSize = 2;

#if MUSTER_HALF_IN_HARDWARE
  using F16 = hn::Rebind<hwy::float16_t, Float>;
  static HWY_INLINE V Load(const uint8_t* from) {
    return hn::PromoteTo(Float(), hn::BitCast(F16(), hn::LoadU(HalfBytes(), from)));
  }
  static HWY_INLINE void Store(V v, uint8_t* to) {
    const V nan = hn::BitCast(Float(), hn::Set(FloatBits(), kCanonicalNan32));
    v = hn::IfThenElse(hn::IsNaN(v), nan, v);
    hn::StoreU(hn::BitCast(HalfBytes(), hn::DemoteTo(F16(), v)), HalfBytes(), to);
  }
#else
  static HWY_INLINE V Load(const uint8_t* from) {
    HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
    for (size_t i = 0; i < hn::Lanes(Float()); ++i) {
      uint16_t half;
      std::memcpy(&half, from + 2 * i, 2);
      lanes[i] = Float16ToFloat(half);
    }
    return hn::Load(Float(), lanes);
  }
  static HWY_INLINE void Store(V v, uint8_t* to) {
    HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
    hn::Store(v, Float(), lanes);
    for (size_t i = 0; i < hn::Lanes(Float()); ++i) {
      const uint16_t half = FloatToFloat16(lanes[i]);
      std::memcpy(to + 2 * i, &half, 2);
    }
  }
#endif
};

// Operations. Finish() is applied once, to the combination of all ranks.
struct Sum {
  template <class V>
  HWY_INLINE V Combine(V a, V b) const {
    return hn::Add(a, b);
  }
  template <class V>
  HWY_INLINE V Finish(V v) const {
    return v;
  }
};

struct Average : Sum {
  uint32_t divisor;
  template <class V>
  HWY_INLINE V Finish(V v) const {
    using D = hn::DFromV<V>;
    return hn::Div(v, hn::Set(D(), static_cast<hn::TFromD<D> >(divisor)));
  }
};

struct Product : Sum {
  template <class V>
  HWY_INLINE V Combine(V a, V b) const {
    return hn::Mul(a, b);
  }
};

template <bool kMax>
struct Extreme : Sum {
  template <class V>
  HWY_INLINE V Combine(V a, V b) const {
    if constexpr (std::is_floating_point_v<hn::TFromV<V> >) {
      const auto better = kMax ? hn::Gt(b, a) : hn::Lt(b, a);
      return hn::IfThenElse(hn::Or(better, hn::IsNaN(b)), b, a);
    } else {
      return kMax ? hn::Max(a, b) : hn::Min(a, b);
    }
  }
};

template <class Format, class Op>
HWY_INLINE void OneVector(const Op& op, const uint8_t* const* ranks, size_t n, uint8_t* out,
                          size_t at) {
  auto v = Format::Load(ranks[0] + at);
  for (size_t r = 1; r < n; ++r) v = op.Combine(v, Format::Load(ranks[r] + at));
  Format::Store(op.Finish(v), out + at);
}

template <class Format, class Op>
void Loop(const Op& op, const uint8_t* const* ranks, size_t n, uint8_t* out, size_t count) {
  const size_t step = hn::Lanes(typename Format::D()) * Format::kSize;
  const size_t bytes = count * Format::kSize;
  size_t at = 0;
  for (; at + 4 * step <= bytes; at += 4 * step) {
    const uint8_t* p = ranks[0] + at;
    auto v0 = Format::Load(p);
    auto v1 = Format::Load(p + step);
    auto v2 = Format::Load(p + 2 * step);
    auto v3 = Format::Load(p + 3 * step);
    for (size_t r = 1; r < n; ++r) {
      p = ranks[r] + at;
      v0 = op.Combine(v0, Format::Load(p));
      v1 = op.Combine(v1, Format::Load(p + step));
      v2 = op.Combine(v2, Format::Load(p + 2 * step));
      v3 = op.Combine(v3, Format::Load(p + 3 * step));
    }
    Format::Store(op.Finish(v0), out + at);
    Format::Store(op.Finish(v1), out + at + step);
    Format::Store(op.Finish(v2), out + at + 2 * step);
    Format::Store(op.Finish(v3), out + at + 3 * step);
  }
  for (; at + step <= bytes; at += step) OneVector<Format>(op, ranks, n, out, at);
  if (at == bytes) return;
  // The rest, in a vector padded with zeros.
  HWY_ALIGN uint8_t rank_bytes[HWY_MAX_BYTES] = {};
  HWY_ALIGN uint8_t out_bytes[HWY_MAX_BYTES];
  std::memcpy(rank_bytes, ranks[0] + at, bytes - at);
  auto v = Format::Load(rank_bytes);
  for (size_t r = 1; r < n; ++r) {
    std::memcpy(rank_bytes, ranks[r] + at, bytes - at);
    v = op.Combine(v, Format::Load(rank_bytes));
  }
  Format::Store(op.Finish(v), out_bytes);
  std::memcpy(out + at, out_bytes, bytes - at);
}

template <class Format>
void Dispatch(const Reduction& reduction, const uint8_t* const* ranks, size_t n, uint8_t* out,
              size_t count) {
  switch (reduction.op) {
    case ReduceOp::kSum:
      return Loop<Format>(Sum(), ranks, n, out, count);
    case ReduceOp::kMin:
      return Loop<Format>(Extreme<false>(), ranks, n, out, count);
    case ReduceOp::kMax:
      return Loop<Format>(Extreme<true>(), ranks, n, out, count);
    case ReduceOp::kAverage:
      if constexpr (std::is_floating_point_v<hn::TFromD<typename Format::D> >) {
        Average average;
        average.divisor = reduction.divisor;
        return Loop<Format>(average, ranks, n, out, count);
      }
      break;
    case ReduceOp::kProduct:
      if constexpr (std::is_floating_point_v<hn::TFromD<typename Format::D> >) {
        return Loop<Format>(Product(), ranks, n, out, count);
      }
      break;
  }
  HWY_ABORT("integer averages and products are not done here");
}

void ReduceVectors(const Reduction& reduction, const uint8_t* const* ranks, size_t n, uint8_t* out,
                   size_t count) {
  switch (reduction.type) {
    case DataType::kFloat32:
      return Dispatch<Plain<float> >(reduction, ranks, n, out, count);
    case DataType::kFloat64:
      return Dispatch<Plain<double> >(reduction, ranks, n, out, count);
    case DataType::kFloat16:
      return Dispatch<Ieee>(reduction, ranks, n, out, count);
    case DataType::kBfloat16:
      return Dispatch<Brain>(reduction, ranks, n, out, count);
    case DataType::kInt8:
      return Dispatch<Plain<int8_t> >(reduction, ranks, n, out, count);
    case DataType::kInt32:
      return Dispatch<Plain<int32_t> >(reduction, ranks, n, out, count);
    case DataType::kInt64:
      return Dispatch<Plain<int64_t> >(reduction, ranks, n, out, count);
    case DataType::kUint8:
      return Dispatch<Plain<uint8_t> >(reduction, ranks, n, out, count);
  }
}

void NarrowVectors(const uint8_t* from, uint8_t* to, size_t count) {
  const size_t lanes = hn::Lanes(Float());
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    Brain::Store(Plain<float>::Load(from + 4 * i), to + 2 * i);
  }
  for (; i < count; ++i) NarrowOne(from + 4 * i, to + 2 * i);
}

void WidenVectors(const uint8_t* from, uint8_t* to, size_t count) {
  const size_t lanes = hn::Lanes(Float());
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::BitCast(hn::Repartition<uint8_t, Float>(), Brain::Load(from + 2 * i));
    hn::StoreU(bits, hn::Repartition<uint8_t, Float>(), to + 4 * i);
  }
  for (; i < count; ++i) WidenOne(from + 2 * i, to + 4 * i);
}

#endif  // HWY_SCALAR

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace muster::collective
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace muster::collective {
namespace {

HWY_EXPORT(ReduceVectors);
HWY_EXPORT(NarrowVectors);
HWY_EXPORT(WidenVectors);
HWY_EXPORT(TargetName);

// Training programs turn subnormals off in threads that may call us.
class ScopedFloatEnvironment {
 public:
#if HWY_ARCH_X86
  ScopedFloatEnvironment() : saved_(_mm_getcsr()) {
    if ((saved_ & kModes) != kDefault) _mm_setcsr((saved_ & ~kModes) | kDefault);
  }
  ~ScopedFloatEnvironment() {
    if ((saved_ & kModes) != kDefault) _mm_setcsr(saved_);
  }

 private:
  static constexpr unsigned kModes = 0xFFC0;    // all but the exception flags
  static constexpr unsigned kDefault = 0x1F80;  // exceptions masked, to nearest, subnormals on
  const unsigned saved_;
#else
  ScopedFloatEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~ScopedFloatEnvironment() { std::fesetenv(&saved_); }

 private:
  std::fenv_t saved_;
#endif
 public:
  ScopedFloatEnvironment(const ScopedFloatEnvironment&) = delete;
  ScopedFloatEnvironment& operator=(const ScopedFloatEnvironment&) = delete;
};

// Averages and products of integers, which training hardly uses: strips of 64-bit sums.
template <typename T>
void ReduceIntegers(const Reduction& reduction, std::span<const std::byte* const> ranks,
                    std::byte* out, size_t count) {
  constexpr size_t kStrip = 256;
  uint64_t wide[kStrip];
  T narrow[kStrip];
  const bool average = reduction.op == ReduceOp::kAverage;
  for (size_t at = 0; at < count; at += kStrip) {
    const size_t strip = std::min(kStrip, count - at);
    std::fill_n(wide, strip, average ? 0 : 1);
    for (const std::byte* rank : ranks) {
      std::memcpy(narrow, rank + at * sizeof(T), strip * sizeof(T));
      for (size_t i = 0; i < strip; ++i) {
        const auto value = static_cast<uint64_t>(static_cast<int64_t>(narrow[i]));
        wide[i] = average ? wide[i] + value : wide[i] * value;
      }
    }
    for (size_t i = 0; i < strip; ++i) {
      const auto total = static_cast<int64_t>(wide[i]);
      narrow[i] = static_cast<T>(average ? total / int64_t{reduction.divisor} : total);
    }
    std::memcpy(out + at * sizeof(T), narrow, strip * sizeof(T));
  }
}

const uint8_t* Bytes(const std::byte* bytes) { return reinterpret_cast<const uint8_t*>(bytes); }
uint8_t* Bytes(std::byte* bytes) { return reinterpret_cast<uint8_t*>(bytes); }

}  // namespace

void Reduce(const Reduction& reduction, std::span<const std::byte* const> ranks, std::byte* out,
            size_t count) {
  MUSTER_CHECK(!ranks.empty() && reduction.divisor > 0);
  if (reduction.op == ReduceOp::kAverage || reduction.op == ReduceOp::kProduct) {
    switch (reduction.type) {
      case DataType::kInt8:
        return ReduceIntegers<int8_t>(reduction, ranks, out, count);
      case DataType::kUint8:
        return ReduceIntegers<uint8_t>(reduction, ranks, out, count);
      case DataType::kInt32:
        return ReduceIntegers<int32_t>(reduction, ranks, out, count);
      case DataType::kInt64:
        return ReduceIntegers<int64_t>(reduction, ranks, out, count);
      default:
        break;
    }
  }
  const ScopedFloatEnvironment environment;
  HWY_DYNAMIC_DISPATCH(ReduceVectors)
  (reduction, reinterpret_cast<const uint8_t* const*>(ranks.data()), ranks.size(), Bytes(out),
   count);
}

void NarrowToBfloat16(const std::byte* float32, std::byte* bfloat16, size_t count) {
  const ScopedFloatEnvironment environment;
  HWY_DYNAMIC_DISPATCH(NarrowVectors)(Bytes(float32), Bytes(bfloat16), count);
}

void WidenBfloat16(const std::byte* bfloat16, std::byte* float32, size_t count) {
  HWY_DYNAMIC_DISPATCH(WidenVectors)(Bytes(bfloat16), Bytes(float32), count);
}

std::string_view KernelTarget() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

}  // namespace muster::collective
#endif  // HWY_ONCE
