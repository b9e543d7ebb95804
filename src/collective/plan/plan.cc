#include "collective/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/check.h"

namespace muster::collective {
namespace {

constexpr double kBytesPerGigabit = 1e9 / 8;

// Shares below this part of an equal one are noise of the arithmetic.
constexpr double kShareLeast = 1e-6;

struct Participants {
  std::vector<uint32_t> speakers;
  std::vector<uint32_t> group_sizes;
  std::vector<double> worker_gbps;
  std::vector<double> reducer_gbps;
};

Status CheckMember(const Member& member, std::string_view role, size_t index) {
  if (std::isfinite(member.gbps) && member.gbps > 0) return {};
  return Fail(Code::kInvalidArgument,
              "{} {} on host '{}' has a bandwidth of {} Gbit/s; it must be a positive number", role,
              index, member.host, member.gbps);
}

Participants Gather(const Cluster& cluster) {
  struct Host {
    double gbps = 0;
    std::vector<uint32_t> ranks;
    uint32_t reducers = 0;
  };
  std::map<std::string, Host> hosts;
  for (uint32_t rank = 0; rank < cluster.workers.size(); ++rank) {
    Host& host = hosts[cluster.workers[rank].host];
    host.gbps = std::max(host.gbps, cluster.workers[rank].gbps);
    host.ranks.push_back(rank);
  }
  for (const Member& reducer : cluster.reducers) {
    Host& host = hosts[reducer.host];
    host.gbps = std::max(host.gbps, reducer.gbps);
    ++host.reducers;
  }
  Participants all;
  for (uint32_t rank = 0; rank < cluster.workers.size(); ++rank) {
    const Host& host = hosts[cluster.workers[rank].host];
    const auto group = static_cast<uint32_t>(host.ranks.size());
    if (!cluster.one_speaker_per_host) {
      all.speakers.push_back(rank);
      all.group_sizes.push_back(1);
      all.worker_gbps.push_back(host.gbps / group);
    } else if (host.ranks.front() == rank) {
      all.speakers.push_back(rank);
      all.group_sizes.push_back(group);
      all.worker_gbps.push_back(host.gbps);
    }
  }
  for (const Member& reducer : cluster.reducers) {
    const Host& host = hosts[reducer.host];
    all.reducer_gbps.push_back(host.ranks.empty() ? host.gbps / host.reducers : 0);
  }
  return all;
}

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// The largest shares that links allow in t seconds per gigabit, scaled to add up to 1. Two workers
// move S each way whoever sums, so they sum themselves, half each: a reducer would only add a hop.
std::vector<double> Shares(const Participants& all, double t) {
  const auto n = static_cast<double>(all.worker_gbps.size());
  std::vector<double> shares;
  shares.reserve(all.worker_gbps.size() + all.reducer_gbps.size());
  for (const double gbps : all.worker_gbps) {
    shares.push_back(n > 2 ? std::max(0.0, (t * gbps - 1) / (n - 2)) : 1);
  }
  for (const double gbps : all.reducer_gbps) shares.push_back(n > 2 ? t * gbps / n : 0);
  double total = Sum(shares);
  for (double& share : shares) {
    if (share < kShareLeast * total / static_cast<double>(shares.size())) share = 0;
  }
  total = Sum(shares);
  for (double& share : shares) share /= total;
  return shares;
}

// Parts of kShareOne that add up to it, each within one part of the exact value or, for the
// largest, within as many parts as there are endpoints.
void SetShares(const std::vector<double>& shares, Plan& plan) {
  uint32_t given = 0;
  size_t largest = 0;
  for (size_t e = 0; e < shares.size(); ++e) {
    plan.endpoints[e].share = static_cast<uint32_t>(shares[e] * kShareOne);
    given += plan.endpoints[e].share;
    if (shares[e] > shares[largest]) largest = e;
  }
  plan.endpoints[largest].share += kShareOne - given;
}

Lane MakeLane(double window_bytes, uint32_t workers, const WindowPolicy& policy) {
  window_bytes = std::min(window_bytes, static_cast<double>(policy.incast_bytes_max) / workers);
  const double chunk =
      std::clamp(window_bytes / policy.chunks, double{kChunkBytesMin}, double{kChunkBytesMax});
  Lane lane;
  lane.chunk_bytes = static_cast<uint32_t>(chunk) / kChunkBytesMin * kChunkBytesMin;
  lane.window_chunks =
      static_cast<uint32_t>(std::clamp(std::round(window_bytes / lane.chunk_bytes),
                                       double{kWindowChunksMin}, double{kWindowChunksMax}));
  return lane;
}

void SetWindows(const Forecast& forecast, const WindowPolicy& policy, Plan& plan) {
  const double rate = forecast.bus_gbps * kBytesPerGigabit;
  const double under_way =
      static_cast<double>(policy.pipeline_bytes) + policy.gain * rate * forecast.round_trip_s;
  uint32_t used = 0;
  for (Endpoint& endpoint : plan.endpoints) {
    const double share = static_cast<double>(endpoint.share) / kShareOne;
    endpoint.lane = MakeLane(under_way * share, plan.workers, policy);
    used += endpoint.share > 0 ? 1 : 0;
  }
  plan.exchange = MakeLane(under_way / plan.workers, plan.workers, policy);
  // Whole to one endpoint: n transfers over one link, but one message in place of `used`.
  const double whole = rate * policy.message_s * (used - 1) / plan.workers;
  plan.whole_bytes = static_cast<uint32_t>(std::clamp(whole, 1024.0, 65536.0));
}

PlanKind KindOf(const Cluster& cluster, const Plan& plan) {
  if (cluster.workers.size() == 1) return PlanKind::kAlone;
  if (plan.workers == 1) return PlanKind::kSharedMemory;
  bool workers = false;
  bool reducers = false;
  for (uint32_t e = 0; e < plan.endpoints.size(); ++e) {
    (e < plan.workers ? workers : reducers) |= plan.endpoints[e].share > 0;
  }
  if (!reducers) return PlanKind::kWorkersOnly;
  return workers ? PlanKind::kMixed : PlanKind::kReductionServer;
}

}  // namespace

double LeastSecondsPerGigabit(const std::vector<double>& worker_gbps,
                              const std::vector<double>& reducer_gbps) {
  const auto n = static_cast<double>(worker_gbps.size());
  MUSTER_CHECK(n >= 2);
  const double slowest = *std::min_element(worker_gbps.begin(), worker_gbps.end());
  const double together = Sum(worker_gbps) + (n - 2) / n * Sum(reducer_gbps);
  return std::max(1 / slowest, 2 * (n - 1) / together);
}

double Forecast::Seconds(uint64_t bytes) const {
  if (bus_gbps == 0) return 0;
  return round_trip_s + static_cast<double>(bytes) / kBytesPerGigabit / bus_gbps;
}

Result<PlannedCluster> MakePlan(const Cluster& cluster, const WindowPolicy& policy) {
  if (cluster.workers.empty()) return Fail(Code::kInvalidArgument, "a plan needs a worker");
  if (cluster.workers.size() > kWorkersMax || cluster.reducers.size() > kReducersMax) {
    return Fail(Code::kInvalidArgument, "{} workers and {} reducers; the most are {} and {}",
                cluster.workers.size(), cluster.reducers.size(), kWorkersMax, kReducersMax);
  }
  for (size_t i = 0; i < cluster.workers.size(); ++i) {
    MUSTER_TRY(CheckMember(cluster.workers[i], "worker", i));
  }
  for (size_t i = 0; i < cluster.reducers.size(); ++i) {
    MUSTER_TRY(CheckMember(cluster.reducers[i], "reducer", i));
  }
  if (!std::isfinite(cluster.round_trip_s) || cluster.round_trip_s < 0) {
    return Fail(Code::kInvalidArgument, "a round trip of {} s; it must be a number from 0",
                cluster.round_trip_s);
  }
  const Participants all = Gather(cluster);
  PlannedCluster made;
  Plan& plan = made.plan;
  plan.workers = static_cast<uint32_t>(all.worker_gbps.size());
  plan.reducers = static_cast<uint32_t>(all.reducer_gbps.size());
  plan.endpoints.resize(plan.workers + plan.reducers);
  Forecast& forecast = made.forecast;
  forecast.speakers = all.speakers;
  forecast.group_sizes = all.group_sizes;
  forecast.worker_gbps = all.worker_gbps;
  forecast.reducer_gbps = all.reducer_gbps;
  forecast.round_trip_s = plan.workers > 1 ? cluster.round_trip_s : 0;
  if (plan.workers > 1) {
    const double n = plan.workers;
    const double t = LeastSecondsPerGigabit(all.worker_gbps, all.reducer_gbps);
    SetShares(Shares(all, t), plan);
    const double slowest = *std::min_element(all.worker_gbps.begin(), all.worker_gbps.end());
    forecast.bus_gbps = 1 / t;
    forecast.ceiling_gbps = slowest;
    forecast.ring_gbps = slowest * n / (2 * (n - 1));
    forecast.reducers_alone_gbps = std::min(slowest, Sum(all.reducer_gbps) / n);
  } else {
    plan.endpoints[0].share = kShareOne;
  }
  SetWindows(forecast, policy, plan);
  forecast.kind = KindOf(cluster, plan);
  MUSTER_CHECK(CheckPlan(plan));
  return made;
}

Status CheckPlan(const Plan& plan) {
  if (plan.workers == 0 || plan.workers > kWorkersMax || plan.reducers > kReducersMax) {
    return Fail(Code::kInvalidArgument, "a plan for {} workers and {} reducers", plan.workers,
                plan.reducers);
  }
  if (plan.endpoints.size() != plan.workers + plan.reducers) {
    return Fail(Code::kInvalidArgument, "a plan with {} endpoints for {} workers and {} reducers",
                plan.endpoints.size(), plan.workers, plan.reducers);
  }
  const auto check_lane = [](const Lane& lane) -> Status {
    if (lane.chunk_bytes >= kChunkBytesMin && lane.chunk_bytes <= kChunkBytesMax &&
        lane.chunk_bytes % 64 == 0 && lane.window_chunks >= kWindowChunksMin &&
        lane.window_chunks <= kWindowChunksMax) {
      return {};
    }
    return Fail(Code::kInvalidArgument, "a window of {} chunks of {} bytes", lane.window_chunks,
                lane.chunk_bytes);
  };
  uint64_t total = 0;
  for (const Endpoint& endpoint : plan.endpoints) {
    MUSTER_TRY(check_lane(endpoint.lane));
    total += endpoint.share;
  }
  MUSTER_TRY(check_lane(plan.exchange));
  if (total != kShareOne) {
    return Fail(Code::kInvalidArgument, "a plan whose shares add up to {} of {}", total, kShareOne);
  }
  if (plan.whole_bytes > kWholeBytesMax) {
    return Fail(Code::kInvalidArgument, "a plan that sends up to {} bytes whole; the most are {}",
                plan.whole_bytes, kWholeBytesMax);
  }
  return {};
}

Plan WithoutReducer(const Plan& plan, uint32_t endpoint) {
  MUSTER_CHECK(endpoint >= plan.workers && endpoint < plan.endpoints.size());
  Plan rest = plan;
  const uint32_t lost = std::exchange(rest.endpoints[endpoint].share, 0);
  const uint64_t left = kShareOne - lost;
  if (left == 0) {
    for (uint32_t w = 0; w < plan.workers; ++w) {
      rest.endpoints[w].share = kShareOne / plan.workers;
      rest.endpoints[w].lane = plan.exchange;
    }
  } else {
    for (Endpoint& other : rest.endpoints) {
      other.share = static_cast<uint32_t>(uint64_t{other.share} * kShareOne / left);
    }
  }
  uint32_t given = 0;
  for (const Endpoint& other : rest.endpoints) given += other.share;
  std::max_element(rest.endpoints.begin(), rest.endpoints.end(),
                   [](const Endpoint& a, const Endpoint& b) { return a.share < b.share; })
      ->share += kShareOne - given;
  return rest;
}

}  // namespace muster::collective
