#include "collective/round/endpoint.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "collective/kernels/reduce.h"
#include "collective/plan/layout.h"
#include "collective/round/roles.h"
#include "collective/wire/messages.h"

namespace muster::collective {
namespace {

// Epochs whose streams are still open: one for each reducer lost while operations were under way.
constexpr size_t kEpochsMax = 16;

bool SameChunk(const FrameHeader& a, const FrameHeader& b) {
  return a.sequence == b.sequence && a.offset == b.offset && a.total == b.total &&
         a.length == b.length && a.dtype == b.dtype && a.op == b.op &&
         a.collective == b.collective && a.root == b.root;
}

}  // namespace

std::string Describe(uint16_t rank, const FrameHeader& header) {
  std::string text = fmt::format("rank {}: {} of {} bytes of {}", rank, Name(header.collective),
                                 header.total, Name(header.dtype));
  if (header.collective == Collective::kAllReduce ||
      header.collective == Collective::kReduceScatter) {
    text += fmt::format(" ({})", Name(header.op));
  }
  if (header.collective == Collective::kBroadcast) text += fmt::format(" from {}", header.root);
  return text + fmt::format(" as operation {}, bytes {} to {}", header.sequence, header.offset,
                            header.offset + header.length);
}

EndpointRound::EndpointRound(const EndpointConfig& config, FrameOutput& output)
    : config_(config), output_(output), statistics_(config.workers), sources_(config.workers) {}

FrameHeader EndpointRound::Control(FrameType type) const {
  return {.type = type,
          .job = config_.job,
          .group = config_.group,
          .epoch = epochs_.empty() ? 0 : epochs_.back().epoch,
          .rank = config_.id};
}

void EndpointRound::Abort(Code code, uint16_t rank, const std::string& reason) {
  if (over_) return;
  over_ = true;
  const std::string body = Encode(AbortMessage{code, rank, reason});
  for (uint16_t r = 0; r < config_.workers; ++r) {
    output_.SendMessage(r, Control(FrameType::kAbort), body);
  }
}

void EndpointRound::PeerLost(uint16_t rank, std::string_view reason) {
  if (over_) return;
  over_ = true;
  const std::string body = Encode(LostMessage{rank, std::string(reason)});
  for (uint16_t r = 0; r < config_.workers; ++r) {
    if (r != rank) output_.SendMessage(r, Control(FrameType::kLost), body);
  }
}

void EndpointRound::OnPlan(uint16_t from, uint32_t epoch, std::span<const std::byte> body) {
  Result<Plan> plan = DecodePlan(body);
  const Status status =
      plan ? OpenEpoch(from, epoch, *std::move(plan)) : Status(std::unexpected(plan.error()));
  if (!status) Abort(status.error().code, from, status.error().message);
}

Status EndpointRound::ForgetOldEpoch() {
  const uint32_t oldest = epochs_.front().epoch;
  for (const auto& stream : streams_) {
    if (stream->epoch != oldest) continue;
    const bool idle = std::ranges::all_of(
        stream->arrived, [&](uint64_t arrived) { return arrived == stream->done; });
    if (!idle || stream->placed > 0) {
      return Fail(Code::kResourceExhausted, "{} reducers were lost within one operation",
                  kEpochsMax);
    }
  }
  std::erase_if(streams_, [&](const auto& stream) {
    if (stream->epoch != oldest) return false;
    memory_bytes_ -= (config_.workers + 1) * stream->lane.WindowBytes();
    return true;
  });
  epochs_.erase(epochs_.begin());
  return {};
}

Status EndpointRound::OpenEpoch(uint16_t from, uint32_t epoch, Plan plan) {
  const auto found = std::ranges::find(epochs_, epoch, &Epoch::epoch);
  if (found != epochs_.end()) {
    if (found->plan != plan) {
      return Fail(Code::kInvalidArgument,
                  "rank {} has another plan for epoch {} than a rank before", from, epoch);
    }
    found->planned[from] = true;
    return {};
  }
  if (plan.workers != config_.workers || config_.id >= plan.endpoints.size()) {
    return Fail(
        Code::kInvalidArgument,
        "rank {} has a plan for {} workers and {} reducers; {} workers and endpoint {} take "
        "part here",
        from, plan.workers, plan.reducers, config_.workers, config_.id);
  }
  if (!epochs_.empty() && epoch < epochs_.back().epoch) {
    return Fail(Code::kFailedPrecondition, "rank {} begins epoch {} after epoch {}", from, epoch,
                epochs_.back().epoch);
  }
  if (epochs_.size() == kEpochsMax) MUSTER_TRY(ForgetOldEpoch());
  Epoch opened{epoch, std::move(plan), std::vector<bool>(config_.workers)};
  opened.planned[from] = true;
  epochs_.push_back(std::move(opened));
  return {};
}

// The stream a frame belongs to, opened at its first frame; nullptr for one of a forgotten epoch.
Result<EndpointRound::Stream*> EndpointRound::StreamOf(uint16_t from, const FrameHeader& header) {
  const bool exchange = UsesExchange(header.collective);
  for (const auto& stream : streams_) {
    if (stream->epoch == header.epoch && stream->exchange == exchange) {
      const auto& planned = std::ranges::find(epochs_, header.epoch, &Epoch::epoch)->planned;
      if (!planned[from]) {
        return Fail(Code::kFailedPrecondition, "rank {} contributes before its plan", from);
      }
      return stream.get();
    }
  }
  const auto epoch = std::ranges::find(epochs_, header.epoch, &Epoch::epoch);
  if (epoch == epochs_.end()) {
    if (!epochs_.empty() && header.epoch < epochs_.front().epoch) return nullptr;
    return Fail(Code::kFailedPrecondition, "rank {} contributes to epoch {} before its plan", from,
                header.epoch);
  }
  if (!epoch->planned[from]) {
    return Fail(Code::kFailedPrecondition, "rank {} contributes before its plan", from);
  }
  if (exchange && config_.id >= config_.workers) {
    return Fail(Code::kInvalidArgument, "rank {} sends part of an operation ({}) to a reducer",
                from, Name(header.collective));
  }
  auto stream = std::make_unique<Stream>();
  stream->epoch = header.epoch;
  stream->exchange = exchange;
  stream->lane = exchange ? epoch->plan.exchange : epoch->plan.endpoints[config_.id].lane;
  const uint64_t window = stream->lane.WindowBytes();
  const uint64_t bytes = (config_.workers + 1) * window;
  if (memory_bytes_ + bytes > config_.memory_bytes_max) {
    return Fail(Code::kResourceExhausted,
                "the plan takes {} bytes for {} ranks' windows; this endpoint grants {}",
                memory_bytes_ + bytes, config_.workers, config_.memory_bytes_max);
  }
  memory_bytes_ += bytes;
  stream->arrived.resize(config_.workers);
  stream->chunks.resize(stream->lane.window_chunks);
  stream->data.resize(size_t{stream->lane.window_chunks} * config_.workers);
  stream->contributions = std::make_unique_for_overwrite<std::byte[]>(config_.workers * window);
  stream->results = std::make_unique_for_overwrite<std::byte[]>(window);
  streams_.push_back(std::move(stream));
  return streams_.back().get();
}

Status EndpointRound::Check(uint16_t from, const FrameHeader& header, const Stream& stream) const {
  if (header.chunk != stream.arrived[from] ||
      header.chunk >= stream.done + stream.lane.window_chunks) {
    return Fail(Code::kFailedPrecondition,
                "rank {} contributes chunk {} where {} was due, {} of them under way at most", from,
                header.chunk, stream.arrived[from], stream.lane.window_chunks);
  }
  if (header.length > stream.lane.chunk_bytes) {
    return Fail(Code::kInvalidArgument, "rank {} contributes {} bytes at once; the plan says {}",
                from, header.length, stream.lane.chunk_bytes);
  }
  if (HasRoot(header.collective) != (header.root < config_.workers) ||
      (!HasRoot(header.collective) && header.root != kNoRank)) {
    return Fail(Code::kInvalidArgument, "{}, with root {}", Describe(from, header), header.root);
  }
  if (Contributes(header, from) == ((header.flags & kFlagEmpty) != 0)) {
    return Fail(Code::kInvalidArgument, "{}, {} data", Describe(from, header),
                Contributes(header, from) ? "without" : "with");
  }
  const Chunk& chunk = stream.chunks[header.chunk % stream.lane.window_chunks];
  if (chunk.arrived > 0 && !SameChunk(chunk.header, header)) {
    return Fail(Code::kInvalidArgument, "the ranks disagree: {}, but {}",
                Describe(chunk.header.rank, chunk.header), Describe(from, header));
  }
  return {};
}

std::byte* EndpointRound::RoomFor(Stream& stream, uint64_t chunk, uint16_t rank) {
  const uint64_t slot = chunk % stream.lane.window_chunks;
  return stream.contributions.get() + (slot * config_.workers + rank) * stream.lane.chunk_bytes;
}

std::byte* EndpointRound::Place(uint16_t from, const FrameHeader& header) {
  if (over_ || header.type != FrameType::kContribution || from >= config_.workers) return nullptr;
  const Result<Stream*> stream = StreamOf(from, header);
  const Status status = !stream   ? Status(std::unexpected(stream.error()))
                        : *stream ? Check(from, header, **stream)
                                  : Status();
  if (!status) Abort(status.error().code, from, status.error().message);
  if (over_ || *stream == nullptr) return nullptr;
  ++(*stream)->placed;
  return RoomFor(**stream, header.chunk, from);
}

void EndpointRound::Arrived(uint16_t from, const FrameHeader& header,
                            std::span<const std::byte> payload, Instant now) {
  if (over_ || from >= config_.workers) return;
  switch (header.type) {
    case FrameType::kContribution: {
      // What was placed was checked then, but another rank may have spoken since.
      if (!payload.empty()) {
        const Result<Stream*> stream = StreamOf(from, header);
        if (stream && *stream) --(*stream)->placed;
      }
      return Add(from, header, payload.data(), now);
    }
    case FrameType::kPlan:
      return OnPlan(from, header.epoch, payload);
    case FrameType::kAbort:
      over_ = true;
      return;
    case FrameType::kHeartbeat:
    case FrameType::kGoodbye:
      return;
    default:
      return Abort(Code::kInvalidArgument, from,
                   fmt::format("rank {} sent a {} frame to an endpoint", from, Name(header.type)));
  }
}

void EndpointRound::Contribute(const FrameHeader& header, std::span<const std::byte> data,
                               Instant now) {
  if (!over_) Add(config_.id, header, data.data(), now);
}

void EndpointRound::Add(uint16_t from, const FrameHeader& header, const std::byte* data,
                        Instant now) {
  const Result<Stream*> found = StreamOf(from, header);
  if (!found) return Abort(found.error().code, from, found.error().message);
  if (*found == nullptr) return;
  Stream& stream = **found;
  if (const Status status = Check(from, header, stream); !status) {
    return Abort(status.error().code, from, status.error().message);
  }
  const uint64_t slot = header.chunk % stream.lane.window_chunks;
  Chunk& chunk = stream.chunks[slot];
  if (chunk.arrived == 0) {
    chunk.header = header;
    chunk.first = now;
  }
  stream.data[slot * config_.workers + from] = data;
  ++chunk.arrived;
  ++stream.arrived[from];
  RankStatistics& statistics = statistics_[from];
  ++statistics.chunks;
  statistics.bytes += PayloadBytes(header);
  statistics.late += now - chunk.first;
  if (chunk.arrived < config_.workers) return;
  ++statistics.last;
  Finish(stream, chunk);
}

void EndpointRound::Finish(Stream& stream, Chunk& chunk) {
  FrameHeader header = chunk.header;
  const uint64_t slot = header.chunk % stream.lane.window_chunks;
  MUSTER_CHECK(header.chunk == stream.done);
  std::byte* const result = stream.results.get() + slot * stream.lane.chunk_bytes;
  const std::byte* const* data = &stream.data[slot * config_.workers];
  if (header.length > 0) {
    if (header.collective == Collective::kBroadcast ||
        header.collective == Collective::kAllGather) {
      std::memcpy(result, data[header.root], header.length);
    } else {
      std::copy_n(data, config_.workers, sources_.begin());
      Reduce({header.dtype, header.op, config_.divisor}, sources_, result,
             header.length / SizeOf(header.dtype));
    }
  }
  // Before anything is sent: a result may bring the next contribution at once.
  ++stream.done;
  chunk.arrived = 0;
  header.type = FrameType::kResult;
  header.rank = config_.id;
  for (uint16_t rank = 0; rank < config_.workers; ++rank) {
    const bool receives = Receives(header, rank);
    header.flags =
        static_cast<uint8_t>((receives ? 0 : kFlagEmpty) | (config_.checked ? kFlagChecked : 0));
    output_.Send(rank, header, {result, receives ? header.length : 0});
  }
}

}  // namespace muster::collective
