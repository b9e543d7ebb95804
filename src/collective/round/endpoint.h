// The endpoint's side: sums the contributions to its chunks and returns the results. A reducer has
// one for each group of each job; every worker has one for its own share.
//
// Memory is what the plan says and never more. In each stream (an epoch's lane) there is room for a
// window of chunks from every rank, and for a window of results. Both are reused without asking
// anyone: a rank contributes chunk c + W only once it has result c, so when chunk c + W is complete
// all have it and its place is free.
//
//     Place(header) ─▶ read payload there ─▶ Arrived(header) ─▶ all ranks? ─▶ sum ─▶ Send × ranks
//
// Contributions are kept until the last one is there and then combined in one pass in the order of
// ranks: results do not depend on who came first, and the sum is one pass over memory that the
// window keeps within the caches.
//
// Invariants, for each stream:
//   1. done ≤ arrived[r] ≤ done + W for every rank r, and done = min arrived.
//   2. Chunks complete in order.
//
// Thread rule: one thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "collective/plan/plan.h"
#include "collective/round/output.h"

namespace muster::collective {

struct EndpointConfig {
  uint64_t job = 0;
  uint32_t group = 0;
  uint16_t id = 0;       // this endpoint's number in the plan
  uint16_t workers = 0;  // ranks that contribute
  uint32_t divisor = 1;  // for averages: all ranks, also those that others speak for
  uint64_t memory_bytes_max = uint64_t{1} << 30;
  bool checked = false;  // results carry a checksum
};

// Who keeps the others waiting.
struct RankStatistics {
  uint64_t chunks = 0;
  uint64_t bytes = 0;
  uint64_t last = 0;                // times this rank was the last to contribute
  std::chrono::nanoseconds late{};  // summed over chunks: after the first rank's contribution
};

class EndpointRound {
 public:
  EndpointRound(const EndpointConfig& config, FrameOutput& output);
  EndpointRound(const EndpointRound&) = delete;
  EndpointRound& operator=(const EndpointRound&) = delete;

  // A data frame's payload goes there; nullptr if it is to be dropped. A frame that breaks the
  // rules ends the group: every rank gets an ABORT that says who did what.
  std::byte* Place(uint16_t from, const FrameHeader& header);

  // A whole frame of any type from a rank.
  void Arrived(uint16_t from, const FrameHeader& header, std::span<const std::byte> payload,
               Instant now);

  // A contribution of this process: not copied, and unchanged until its result is sent.
  void Contribute(const FrameHeader& header, std::span<const std::byte> data, Instant now);

  // The connection to a rank has failed, or it has been silent too long. Tells all others and ends
  // the group: they do without this reducer, or end because the rank is really gone.
  void PeerLost(uint16_t rank, std::string_view reason);

  // Whether the group has ended here. Everything that comes afterwards is dropped.
  bool over() const { return over_; }

  const std::vector<RankStatistics>& statistics() const { return statistics_; }
  uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  // A chunk that some ranks have contributed to. `header` is the first one's.
  struct Chunk {
    FrameHeader header;
    uint32_t arrived = 0;
    Instant first;
  };
  struct Stream {
    uint32_t epoch = 0;
    bool exchange = false;
    Lane lane;
    uint64_t done = 0;
    std::vector<uint64_t> arrived;               // by rank
    std::vector<Chunk> chunks;                   // by chunk % window
    std::vector<const std::byte*> data;          // by chunk % window, rank
    std::unique_ptr<std::byte[]> contributions;  // by chunk % window, rank
    std::unique_ptr<std::byte[]> results;        // by chunk % window
    uint32_t placed = 0;                         // frames between Place() and Arrived()
  };
  struct Epoch {
    uint32_t epoch = 0;
    Plan plan;
    std::vector<bool> planned;  // ranks that have sent the plan
  };

  void OnPlan(uint16_t from, uint32_t epoch, std::span<const std::byte> body);
  Status OpenEpoch(uint16_t from, uint32_t epoch, Plan plan);
  Status ForgetOldEpoch();
  Result<Stream*> StreamOf(uint16_t from, const FrameHeader& header);
  Status Check(uint16_t from, const FrameHeader& header, const Stream& stream) const;
  void Add(uint16_t from, const FrameHeader& header, const std::byte* data, Instant now);
  void Finish(Stream& stream, Chunk& chunk);
  std::byte* RoomFor(Stream& stream, uint64_t chunk, uint16_t rank);
  void Abort(Code code, uint16_t rank, const std::string& reason);
  FrameHeader Control(FrameType type) const;

  const EndpointConfig config_;
  FrameOutput& output_;
  bool over_ = false;
  std::vector<Epoch> epochs_;  // oldest first
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<RankStatistics> statistics_;
  std::vector<const std::byte*> sources_;  // of the chunk being summed
  uint64_t memory_bytes_ = 0;
};

// "rank 3: all-reduce of 400 bytes of float32 (sum) as operation 7": for messages about ranks that
// disagree.
std::string Describe(uint16_t rank, const FrameHeader& header);

}  // namespace muster::collective
