#include <cstring>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "collective/kernels/half.h"
#include "collective/kernels/reduce.h"

namespace muster::collective {
namespace {

template <typename T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <typename T>
T Canonical(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return value != value ? std::bit_cast<float>(kCanonicalNan32) : value;
  } else if constexpr (std::is_same_v<T, double>) {
    return value != value ? std::bit_cast<double>(kCanonicalNan64) : value;
  } else {
    return value;
  }
}

// Integers are combined as unsigned ones, which wrap.
template <typename T>
T Combine(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kMin:
      return b < a || b != b ? b : a;
    case ReduceOp::kMax:
      return b > a || b != b ? b : a;
    case ReduceOp::kProduct:
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      } else {
        return a * b;
      }
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      } else {
        return a + b;
      }
  }
  return a;
}

// T is what is stored, Wide what is computed in.
template <typename T, typename Wide, Wide (*widen)(T), T (*narrow)(Wide)>
void Run(const Reduction& reduction, std::span<const std::byte* const> ranks, std::byte* out,
         size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Wide sum = widen(Load<T>(ranks[0] + i * sizeof(T)));
    for (const std::byte* rank : ranks.subspan(1)) {
      sum = Combine<Wide>(reduction.op, sum, widen(Load<T>(rank + i * sizeof(T))));
    }
    if (reduction.op == ReduceOp::kAverage) sum = sum / static_cast<Wide>(reduction.divisor);
    const T result = narrow(Canonical(sum));
    std::memcpy(out + i * sizeof(T), &result, sizeof(T));
  }
}

template <typename T, typename Wide>
Wide Convert(T value) {
  return static_cast<Wide>(value);
}

template <typename T, typename Wide = T>
void RunPlain(const Reduction& reduction, std::span<const std::byte* const> ranks, std::byte* out,
              size_t count) {
  Run<T, Wide, &Convert<T, Wide>, &Convert<Wide, T>>(reduction, ranks, out, count);
}

}  // namespace

void ReduceReference(const Reduction& reduction, std::span<const std::byte* const> ranks,
                     std::byte* out, size_t count) {
  MUSTER_CHECK(!ranks.empty() && reduction.divisor > 0);
  switch (reduction.type) {
    case DataType::kFloat32:
      return RunPlain<float>(reduction, ranks, out, count);
    case DataType::kFloat64:
      return RunPlain<double>(reduction, ranks, out, count);
    case DataType::kFloat16:
      return Run<uint16_t, float, &Float16ToFloat, &FloatToFloat16>(reduction, ranks, out, count);
    case DataType::kBfloat16:
      return Run<uint16_t, float, &Bfloat16ToFloat, &FloatToBfloat16>(reduction, ranks, out, count);
    case DataType::kInt8:
      return RunPlain<int8_t, int64_t>(reduction, ranks, out, count);
    case DataType::kInt32:
      return RunPlain<int32_t, int64_t>(reduction, ranks, out, count);
    case DataType::kInt64:
      return RunPlain<int64_t>(reduction, ranks, out, count);
    case DataType::kUint8:
      return RunPlain<uint8_t, int64_t>(reduction, ranks, out, count);
  }
}

}  // namespace muster::collective
