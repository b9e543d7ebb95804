#include "collective/plan/sizing.h"

#include <fmt/format.h>

#include <cmath>

#include "collective/plan/plan.h"

namespace muster::collective {

uint32_t ReducersNeeded(const SizingQuestion& question) {
  if (question.workers <= 2) return 0;
  // 25.000000001 comes from dividing, not from the links.
  const double exact = question.workers * question.worker_gbps / question.reducer_gbps;
  return static_cast<uint32_t>(std::ceil(exact * (1 - 1e-9)));
}

std::vector<SizingRow> SizingTable(const SizingQuestion& question) {
  std::vector<SizingRow> rows;
  if (question.workers < 2) return rows;
  const double n = question.workers;
  const std::vector<double> workers(question.workers, question.worker_gbps);
  for (uint32_t k = 0; k <= ReducersNeeded(question); ++k) {
    const std::vector<double> reducers(k, question.reducer_gbps);
    const double bus = 1 / LeastSecondsPerGigabit(workers, reducers);
    rows.push_back({.reducers = k,
                    .bus_gbps = bus,
                    .slowdown = question.worker_gbps / bus,
                    .over_ring = bus / question.worker_gbps * 2 * (n - 1) / n});
  }
  return rows;
}

Result<std::string> ExplainSizing(const SizingQuestion& question) {
  const auto positive = [](double gbps) { return std::isfinite(gbps) && gbps > 0; };
  if (question.workers == 0 || question.workers > kWorkersMax) {
    return Fail(Code::kInvalidArgument, "--workers must be from 1 to {}", kWorkersMax);
  }
  if (!positive(question.worker_gbps)) {
    return Fail(Code::kInvalidArgument, "--worker-gbps must be a positive number");
  }
  if (!positive(question.reducer_gbps)) {
    return Fail(Code::kInvalidArgument, "--reducer-gbps must be a positive number");
  }
  const double exact = question.workers * question.worker_gbps / question.reducer_gbps;
  if (exact > kReducersMax) {
    return Fail(Code::kInvalidArgument,
                "{:.0f} reducers of {} Gbit/s would be needed; the most are {}: take faster ones",
                std::ceil(exact), question.reducer_gbps, kReducersMax);
  }
  if (question.workers <= 2) {
    return fmt::format("{} worker{}: no reducers are needed{}.\n", question.workers,
                       question.workers == 1 ? "" : "s",
                       question.workers == 1 ? ", there is nothing to exchange"
                                             : ", two workers reach their links' bandwidth alone");
  }
  const uint32_t needed = ReducersNeeded(question);
  std::string text = fmt::format(
      "{} reducers of {} Gbit/s let {} workers of {} Gbit/s all-reduce at the full bandwidth of "
      "their links.\nWith fewer, reducers and workers share the summing:\n\n"
      "{:>9} {:>20} {:>14} {:>12}\n",
      needed, question.reducer_gbps, question.workers, question.worker_gbps, "reducers",
      "payload, Gbit/s", "time", "over a ring");
  const std::vector<SizingRow> rows = SizingTable(question);
  const uint32_t step = std::max(1u, (needed + 7) / 8);
  for (const SizingRow& row : rows) {
    if (row.reducers % step != 0 && row.reducers != needed) continue;
    text += fmt::format("{:>9} {:>20.4g} {:>12.2f} × {:>10.2f} ×\n", row.reducers, row.bus_gbps,
                        row.slowdown, row.over_ring);
  }
  return text;
}

}  // namespace muster::collective
