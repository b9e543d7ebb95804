// The plan for people.
#include <fmt/format.h>

#include <iterator>

#include "collective/plan/plan.h"

namespace muster::collective {
namespace {

std::string Rate(double gbps) {
  return gbps >= 1 ? fmt::format("{:.4g} Gbit/s", gbps) : fmt::format("{:.4g} Mbit/s", gbps * 1e3);
}

std::string Seconds(double s) {
  if (s >= 1) return fmt::format("{:.3g} s", s);
  return s >= 1e-3 ? fmt::format("{:.3g} ms", s * 1e3) : fmt::format("{:.3g} µs", s * 1e6);
}

std::string Bytes(uint64_t bytes) {
  if (bytes >= 10u << 20) return fmt::format("{} MiB", bytes >> 20);
  return bytes >= 10u << 10 || (bytes > 0 && bytes % 1024 == 0) ? fmt::format("{} KiB", bytes >> 10)
                                                                : fmt::format("{} bytes", bytes);
}

uint32_t IdleReducers(const Forecast& forecast) {
  uint32_t idle = 0;
  for (const double gbps : forecast.reducer_gbps) idle += gbps == 0 ? 1 : 0;
  return idle;
}

std::string Headline(const Plan& plan, const Forecast& forecast) {
  switch (forecast.kind) {
    case PlanKind::kAlone:
      return "One worker: there is nothing to exchange.\n";
    case PlanKind::kSharedMemory: {
      std::string text = fmt::format(
          "All {} workers are on one host: they sum through shared memory, and nothing crosses a "
          "link.\n",
          forecast.group_sizes[0]);
      if (plan.reducers > 0) {
        text += fmt::format("The {} reducer(s) cannot help and stay idle.\n", plan.reducers);
      }
      return text;
    }
    case PlanKind::kWorkersOnly:
      if (plan.workers == 2) {
        return "The two workers sum half of the payload each. That already reaches the links' "
               "bandwidth: reducers cannot help.\n";
      }
      return fmt::format("{} workers sum among themselves, {}.\n", plan.workers,
                         plan.reducers == 0 ? "without reducers" : "as no reducer can help");
    case PlanKind::kMixed:
      return fmt::format("{} reducer(s) and the workers sum together, for {} workers.\n",
                         plan.reducers - IdleReducers(forecast), plan.workers);
    case PlanKind::kReductionServer:
      return fmt::format(
          "{} reducer(s) sum everything for {} workers, which send and receive the payload "
          "once.\n",
          plan.reducers - IdleReducers(forecast), plan.workers);
  }
  return "";
}

// One line for each run of endpoints that are alike.
void AppendEndpoints(const Plan& plan, const Forecast& forecast, std::string& text) {
  const double n = plan.workers;
  const auto gbps_of = [&](uint32_t e) {
    return e < plan.workers ? forecast.worker_gbps[e] : forecast.reducer_gbps[e - plan.workers];
  };
  const auto alike = [&](uint32_t a, uint32_t b) {
    const int64_t apart = int64_t{plan.endpoints[a].share} - int64_t{plan.endpoints[b].share};
    return (a < plan.workers) == (b < plan.workers) && gbps_of(a) == gbps_of(b) &&
           apart <= kShareOne / 1000 && -apart <= kShareOne / 1000;
  };
  text += fmt::format("{:<16} {:>14} {:>8} {:>16} {:>6}  {}\n", "endpoint", "link", "sums",
                      "moves each way", "busy", "window");
  for (uint32_t first = 0, last = 0; first < plan.endpoints.size(); first = last + 1) {
    last = first;
    while (last + 1 < plan.endpoints.size() && alike(first, last + 1)) ++last;
    const bool worker = first < plan.workers;
    const uint32_t base = worker ? 0 : plan.workers;
    std::string name = worker ? "worker " : "reducer ";
    name += first == last ? fmt::format("{}", first - base)
                          : fmt::format("{}–{}", first - base, last - base);
    const double share = static_cast<double>(plan.endpoints[first].share) / kShareOne;
    const double moves = worker ? 1 + (n - 2) * share : n * share;
    if (!worker && gbps_of(first) == 0) {
      text +=
          fmt::format("{:<16} {:>14} idle: its host has workers, whose link is in use\n", name, "");
      continue;
    }
    const Lane& lane = plan.endpoints[first].lane;
    text += fmt::format(
        "{:<16} {:>14} {:>6.1f} % {:>12.3f} × S {:>4.0f} %  {}\n", name, Rate(gbps_of(first)),
        share * 100, moves, moves * forecast.bus_gbps / gbps_of(first) * 100,
        share == 0 ? "–" : fmt::format("{} × {}", lane.window_chunks, Bytes(lane.chunk_bytes)));
  }
}

void AppendComparison(const Plan& plan, const Forecast& forecast, uint64_t bytes,
                      std::string& text) {
  text += fmt::format("Predicted: {} of payload per second; {} in {}.\n", Rate(forecast.bus_gbps),
                      Bytes(bytes), Seconds(forecast.Seconds(bytes)));
  if (forecast.bus_gbps >= forecast.ceiling_gbps * (1 - 1e-9)) {
    text +=
        "Limit: the slowest worker's link carries the payload once each way. More reducers "
        "would not help.\n";
  } else {
    text += fmt::format(
        "Limit with these links: the same {}; all of them are busy. With enough reducers: {}.\n",
        Rate(forecast.bus_gbps), Rate(forecast.ceiling_gbps));
  }
  text += fmt::format("For comparison: a ring {} ({:.2f} ×)", Rate(forecast.ring_gbps),
                      forecast.bus_gbps / forecast.ring_gbps);
  if (forecast.reducers_alone_gbps > 0 && forecast.kind == PlanKind::kMixed) {
    text += fmt::format(", the reducers alone {} ({:.2f} ×)", Rate(forecast.reducers_alone_gbps),
                        forecast.bus_gbps / forecast.reducers_alone_gbps);
  }
  text += ".\n";
  text +=
      fmt::format("Payloads up to {} go whole to one endpoint in turn.\n", Bytes(plan.whole_bytes));
}

}  // namespace

std::string Explain(const PlannedCluster& planned, uint64_t bytes) {
  const auto& [plan, forecast] = planned;
  std::string text = Headline(plan, forecast);
  if (plan.workers == 1) return text;
  uint32_t ranks = 0;
  for (const uint32_t size : forecast.group_sizes) ranks += size;
  if (ranks > plan.workers) {
    text += fmt::format(
        "Workers that share a host sum through shared memory first: {} ranks, {} speakers.\n",
        ranks, plan.workers);
  }
  AppendEndpoints(plan, forecast, text);
  AppendComparison(plan, forecast, bytes, text);
  return text;
}

}  // namespace muster::collective
