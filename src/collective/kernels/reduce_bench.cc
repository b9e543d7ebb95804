// How near a reduction comes to a copy, measured in the same process right before.
//   of_copy     the time to copy the n contributions, over the time to sum them: the same bytes in
//   of_traffic  the time to copy (n + 1)/2 of them, which reads and writes as many bytes together
//               as the sum, over the time of the sum: the harder measure
// Both in the thread's processor time, so that other load disturbs them less.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <vector>

#include "collective/kernels/reduce.h"

namespace muster::collective {
namespace {

double ThreadSeconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Best of some rounds, in seconds.
template <typename Work>
double Best(const Work& work) {
  double best = 1e9;
  for (int round = 0; round < 9; ++round) {
    const double begin = ThreadSeconds();
    work();
    best = std::min(best, ThreadSeconds() - begin);
  }
  return best;
}

void BM_Reduce(benchmark::State& state, DataType type, ReduceOp op) {
  const auto n = static_cast<size_t>(state.range(0));
  const auto part = static_cast<size_t>(state.range(1));
  const size_t repeats = std::max<size_t>(1, (8u << 20) / (n * part));
  std::vector<std::vector<std::byte>> storage(n, std::vector<std::byte>(part, std::byte{1}));
  std::vector<const std::byte*> ranks;
  for (const auto& bytes : storage) ranks.push_back(bytes.data());
  std::vector<std::byte> out(part);
  std::vector<std::byte> from(n * part, std::byte{1});
  std::vector<std::byte> to(n * part);
  const auto copy = [&](size_t bytes) {
    return Best([&] {
      for (size_t i = 0; i < repeats; ++i) {
        std::memcpy(to.data(), from.data(), bytes);
        benchmark::DoNotOptimize(to.data());
        benchmark::ClobberMemory();
      }
    });
  };
  const Reduction reduction{type, op, static_cast<uint32_t>(n)};
  const auto reduce = [&] {
    for (size_t i = 0; i < repeats; ++i) {
      Reduce(reduction, ranks, out.data(), part / SizeOf(type));
      benchmark::DoNotOptimize(out.data());
      benchmark::ClobberMemory();
    }
  };
  const double sum = Best(reduce);
  for (auto _ : state) reduce();
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * repeats * (n + 1) * part));
  state.counters["of_copy"] = copy(n * part) / sum;
  state.counters["of_traffic"] = copy((n + 1) * part / 2) / sum;
  state.SetLabel(std::string(KernelTarget()));
}

void Sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"ranks", "bytes"});
  for (const int n : {2, 4, 8}) {
    for (const int bytes : {16 << 10, 64 << 10, 16 << 20}) bench->Args({n, bytes});
  }
}

BENCHMARK_CAPTURE(BM_Reduce, float32_sum, DataType::kFloat32, ReduceOp::kSum)->Apply(Sizes);
BENCHMARK_CAPTURE(BM_Reduce, float32_max, DataType::kFloat32, ReduceOp::kMax)->Apply(Sizes);
BENCHMARK_CAPTURE(BM_Reduce, float64_sum, DataType::kFloat64, ReduceOp::kSum)->Apply(Sizes);
BENCHMARK_CAPTURE(BM_Reduce, float16_sum, DataType::kFloat16, ReduceOp::kSum)->Apply(Sizes);
BENCHMARK_CAPTURE(BM_Reduce, bfloat16_sum, DataType::kBfloat16, ReduceOp::kSum)->Apply(Sizes);
BENCHMARK_CAPTURE(BM_Reduce, int32_sum, DataType::kInt32, ReduceOp::kSum)->Apply(Sizes);

}  // namespace
}  // namespace muster::collective
