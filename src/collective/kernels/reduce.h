// The arithmetic of a reduction: n ranks' elements into one.
//
// Results are the same bit for bit on every machine, for any cut into chunks and any vector width:
//   - ranks are combined in the order given, element by element;
//   - float16 and bfloat16 are widened, combined in float32, and rounded once, to nearest even;
//   - every NaN result is the quiet NaN without sign or payload; a NaN contribution makes the
//     result of any operation NaN; of equal values (−0 and +0) a minimum or maximum keeps the
//     first;
//   - subnormal numbers count in full, whatever the thread's floating-point modes;
//   - integers wrap around; an average of integers is the sum in 64 bits, divided toward zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "collective/types/types.h"

namespace muster::collective {

struct Reduction {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  uint32_t divisor = 1;  // for kAverage: how many ranks there are, which may be more than buffers
};

// out[i] = ranks[0][i] ∘ ranks[1][i] ∘ … for i < count. Buffers need no alignment; out may be one
// of them, but not overlap one in another way. At least one rank. Never allocates.
void Reduce(const Reduction& reduction, std::span<const std::byte* const> ranks, std::byte* out,
            size_t count);

// The same in plain C++, one element at a time: what tests hold Reduce() against.
void ReduceReference(const Reduction& reduction, std::span<const std::byte* const> ranks,
                     std::byte* out, size_t count);

// float32 on the wire as bfloat16: half the bytes, rounded to nearest even. No alignment needed, no
// overlap.
void NarrowToBfloat16(const std::byte* float32, std::byte* bfloat16, size_t count);
void WidenBfloat16(const std::byte* bfloat16, std::byte* float32, size_t count);

// The instruction set in use, for explanations: "AVX3".
std::string_view KernelTarget();

}  // namespace muster::collective
