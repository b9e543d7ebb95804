#include "collective/sim/program.h"

#include <algorithm>
#include <cstring>

#include "collective/kernels/reduce.h"

namespace muster::collective::sim {
namespace {

// Numbers around one, so that sums round; now and then any bits at all, so that there are NaNs.
void Fill(Random& random, DataType type, Bytes& bytes) {
  const bool any = random.OneIn(4);
  for (size_t at = 0; at < bytes.size(); at += SizeOf(type)) {
    uint64_t bits = random.Next();
    if (!any && type == DataType::kFloat32) {
      bits = (bits & 0x80FFFFFF) | 0x3F000000;
    } else if (!any && type == DataType::kFloat64) {
      bits = (bits & 0x801FFFFFFFFFFFFF) | 0x3FE0000000000000;
    } else if (!any && type == DataType::kFloat16) {
      bits = (bits & 0x87FF) | 0x3800;
    } else if (!any && type == DataType::kBfloat16) {
      bits = (bits & 0x80FF) | 0x3F00;
    }
    std::memcpy(bytes.data() + at, &bits, SizeOf(type));
  }
}

uint64_t AnyBytes(Random& random) {
  switch (random.Below(4)) {
    case 0:
      return random.Below(64);
    case 1:
      return random.Below(6000);
    default:
      return random.Below(120'000);
  }
}

Bytes Reduced(const Step& step, uint32_t divisor) {
  const Operation& operation = step.operation;
  std::vector<const std::byte*> ranks;
  ranks.reserve(step.inputs.size());
  for (const Bytes& input : step.inputs) ranks.push_back(input.data());
  Bytes out(operation.bytes);
  ReduceReference({operation.dtype, operation.op, divisor}, ranks, out.data(),
                  out.size() / SizeOf(operation.dtype));
  return out;
}

}  // namespace

Step MakeStep(Random& random, uint16_t ranks, uint32_t divisor) {
  Step step;
  Operation& operation = step.operation;
  // All-reduce is what training does most, and what recovery is about.
  operation.kind = random.OneIn(2) ? Collective::kAllReduce
                                   : kCollectives[random.Below(std::size(kCollectives))];
  operation.dtype = kDataTypes[random.Below(std::size(kDataTypes))];
  operation.op = kReduceOps[random.Below(std::size(kReduceOps))];
  const uint64_t unit = SizeOf(operation.dtype) * (UsesExchange(operation.kind) ? ranks : 1);
  operation.bytes = operation.kind == Collective::kBarrier ? 0 : AnyBytes(random) / unit * unit;
  if (operation.kind == Collective::kBroadcast) {
    operation.root = static_cast<uint16_t>(random.Below(ranks));
  }
  const uint64_t block = operation.bytes / ranks;
  const bool gather = operation.kind == Collective::kAllGather;
  step.in_place = operation.kind != Collective::kReduceScatter && !random.OneIn(3);
  for (uint16_t rank = 0; rank < ranks; ++rank) {
    step.inputs.emplace_back(gather ? block : operation.bytes);
    Fill(random, operation.dtype, step.inputs.back());
  }
  switch (operation.kind) {
    case Collective::kAllReduce:
      step.outputs.assign(ranks, Reduced(step, divisor));
      break;
    case Collective::kReduceScatter: {
      const Bytes whole = Reduced(step, divisor);
      for (uint16_t rank = 0; rank < ranks; ++rank) {
        const auto begin = whole.begin() + static_cast<ptrdiff_t>(rank * block);
        step.outputs.emplace_back(begin, begin + static_cast<ptrdiff_t>(block));
      }
      break;
    }
    case Collective::kAllGather: {
      Bytes whole;
      for (const Bytes& input : step.inputs) whole.insert(whole.end(), input.begin(), input.end());
      step.outputs.assign(ranks, whole);
      break;
    }
    case Collective::kBroadcast:
      step.outputs.assign(ranks, step.inputs[operation.root]);
      break;
    case Collective::kBarrier:
      step.outputs.assign(ranks, {});
      break;
  }
  return step;
}

}  // namespace muster::collective::sim
