// Who sums what: the plan of an epoch.
//
// A payload of S bytes is cut into chunks, and each chunk belongs to one endpoint, which sums the
// contributions and sends the result back. Endpoints are the dedicated reducers and the workers
// themselves. With share f of the payload at an endpoint, n workers and full-duplex links of
// bandwidth B, a worker moves S(1 + (n−2)f) each way and a reducer S·n·f. The plan takes the shares
// that make the slowest of them as fast as it can be:
//
//     T = S · max( 1 / min B_worker , 2(n−1) / (ΣB_worker + (n−2)/n · ΣB_reducer) )
//
// which covers unequal links: at that T the largest shares allowed, T·B/S−1 over n−2 for a worker
// and T·B/(nS) for a reducer, add up to 1. With no reducers and equal links T is a ring's; with n
// reducers as fast as the workers it is S/B, the Reduction Server's; between them it is better than
// both. docs/design/reduction-plan.md derives it.
//
// Two ranks with different plans would wait for each other for ever. So rank 0 makes the plan, all
// others receive it, and everything that is derived from it (layout.h) is integer arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace muster::collective {

// Limits of a plan, whoever makes it; the decoder enforces them on what the network brings.
inline constexpr uint32_t kWorkersMax = 4096;
inline constexpr uint32_t kReducersMax = 4096;
inline constexpr uint32_t kChunkBytesMin = 4u << 10;
inline constexpr uint32_t kChunkBytesMax = 1u << 20;
inline constexpr uint32_t kWindowChunksMin = 2;
inline constexpr uint32_t kWindowChunksMax = 256;
inline constexpr uint32_t kWholeBytesMax = 1u << 20;

// Shares are parts of this, so that they add up exactly on every machine.
inline constexpr uint32_t kShareOne = 1u << 30;

// A process of the job, and the bandwidth of its host's link, each way. Members that name the same
// host share that link.
struct Member {
  std::string host;
  double gbps = 0;
};

struct Cluster {
  std::vector<Member> workers;  // by rank
  std::vector<Member> reducers;
  double round_trip_s = 200e-6;  // measured between two hosts, unloaded

  // Ranks on one host sum through shared memory first and one of them speaks for the host. Without
  // it each rank takes part by itself, and ranks on one host divide its link.
  bool one_speaker_per_host = true;
};

// How a worker talks to one endpoint. A worker may have window_chunks contributions under way whose
// results it has not got.
struct Lane {
  uint32_t chunk_bytes = kChunkBytesMin;  // a multiple of 64
  uint32_t window_chunks = kWindowChunksMin;

  uint64_t WindowBytes() const { return uint64_t{chunk_bytes} * window_chunks; }
  bool operator==(const Lane&) const = default;
};

struct Endpoint {
  uint32_t share = 0;  // of kShareOne
  Lane lane;

  bool operator==(const Endpoint&) const = default;
};

// What every rank and reducer of an epoch must agree on. Endpoint e is worker e for e < workers,
// else reducer e − workers; worker here means a participant (a host's speaker, see Forecast).
struct Plan {
  uint32_t workers = 0;
  uint32_t reducers = 0;
  std::vector<Endpoint> endpoints;  // workers + reducers of them
  Lane exchange;                    // for reduce-scatter and all-gather: workers only, equal shares
  uint32_t whole_bytes = 0;         // payloads up to this go whole to one endpoint

  bool operator==(const Plan&) const = default;
};

// Shares add to kShareOne, sizes are within the limits above. Whoever receives a plan asks this.
Status CheckPlan(const Plan& plan);

enum class PlanKind {
  kAlone,            // one worker: nothing to exchange
  kSharedMemory,     // all workers on one host: nothing crosses a link
  kWorkersOnly,      // no reducer can help or there is none
  kMixed,            // reducers and workers both sum
  kReductionServer,  // reducers alone sum
};

// What the plan promises. Bus bandwidth is S/T: payload reduced per second, the figure to compare
// with a measurement; 0 when nothing crosses a link.
struct Forecast {
  PlanKind kind = PlanKind::kAlone;
  std::vector<uint32_t> speakers;     // rank that takes part, by participant
  std::vector<uint32_t> group_sizes;  // ranks each of them speaks for
  std::vector<double> worker_gbps;    // by participant
  std::vector<double> reducer_gbps;   // by reducer; 0: cannot help (its host has workers)
  double bus_gbps = 0;                // of this plan, the best for these links
  double ceiling_gbps = 0;            // S / min B: what no number of reducers exceeds
  double ring_gbps = 0;               // a ring over the same workers
  double reducers_alone_gbps = 0;     // the same reducers without the workers' help; 0: none
  double round_trip_s = 0;

  // Predicted time of an all-reduce of so many bytes: two message latencies and the transfer.
  double Seconds(uint64_t bytes) const;
};

struct PlannedCluster {
  Plan plan;
  Forecast forecast;
};

// How windows follow from links. Without it a plan's shares alone are not enough: TCP divides a
// link equally among flows, so windows must be in proportion to the shares.
struct WindowPolicy {
  // What a worker has under way in total: pipeline_bytes + gain × (bus bandwidth × round trip).
  uint64_t pipeline_bytes = 512u << 10;
  double gain = 2;
  uint32_t chunks = 4;                    // chunks in a window
  uint64_t incast_bytes_max = 16u << 20;  // n × window that meet at one endpoint
  double message_s = 5e-6;                // cost of one more message, for whole_bytes
};

// Fails with kInvalidArgument, naming the member, on no workers, too many, or a bandwidth that is
// not a positive number.
Result<PlannedCluster> MakePlan(const Cluster& cluster, const WindowPolicy& policy = {});

// The same shares without one reducer, whose part goes to the others in proportion; if none is
// left, to the workers equally. For the moment between the loss of a reducer and a new plan.
Plan WithoutReducer(const Plan& plan, uint32_t endpoint);

// Least T/S in seconds per gigabit for participants with these links; reducers with 0 are ignored.
double LeastSecondsPerGigabit(const std::vector<double>& worker_gbps,
                              const std::vector<double>& reducer_gbps);

// The plan in words and numbers, for people: which kind and why, shares, what each link carries,
// predicted time for `bytes`, limit, windows.
std::string Explain(const PlannedCluster& planned, uint64_t bytes);

}  // namespace muster::collective
