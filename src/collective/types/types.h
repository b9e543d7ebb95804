// The nouns of a collective: element types, reductions, and which collective it is. The numbers are
// those on the wire (docs/protocol/reduction.md) and never change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster::collective {

enum class DataType : uint8_t {
  kFloat32 = 1,
  kFloat64 = 2,
  kFloat16 = 3,
  kBfloat16 = 4,
  kInt8 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kUint8 = 8,
};

enum class ReduceOp : uint8_t { kSum = 1, kAverage = 2, kMin = 3, kMax = 4, kProduct = 5 };

enum class Collective : uint8_t {
  kAllReduce = 1,      // every rank contributes all, every rank receives all
  kReduceScatter = 2,  // every rank contributes all, rank r receives block r
  kAllGather = 3,      // rank r contributes block r, every rank receives all
  kBroadcast = 4,      // the root contributes all, every rank receives all
  kBarrier = 5,        // an all-reduce of no bytes
};

inline constexpr DataType kDataTypes[] = {
    DataType::kFloat32, DataType::kFloat64, DataType::kFloat16, DataType::kBfloat16,
    DataType::kInt8,    DataType::kInt32,   DataType::kInt64,   DataType::kUint8};
inline constexpr ReduceOp kReduceOps[] = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin,
                                          ReduceOp::kMax, ReduceOp::kProduct};
inline constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kReduceScatter,
                                              Collective::kAllGather, Collective::kBroadcast,
                                              Collective::kBarrier};

constexpr size_t SizeOf(DataType type) {
  switch (type) {
    case DataType::kFloat64:
    case DataType::kInt64:
      return 8;
    case DataType::kFloat32:
    case DataType::kInt32:
      return 4;
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return 2;
    case DataType::kInt8:
    case DataType::kUint8:
      return 1;
  }
  return 0;
}

constexpr bool IsValid(DataType type) { return SizeOf(type) != 0; }
constexpr bool IsValid(ReduceOp op) { return op >= ReduceOp::kSum && op <= ReduceOp::kProduct; }
constexpr bool IsValid(Collective kind) {
  return kind >= Collective::kAllReduce && kind <= Collective::kBarrier;
}

// "float32", "sum", "all-reduce": for messages.
std::string_view Name(DataType type);
std::string_view Name(ReduceOp op);
std::string_view Name(Collective kind);

}  // namespace muster::collective
