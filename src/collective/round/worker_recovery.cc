// The loss of a reducer, as worker.h tells it.
//
// Order in the streams of a new epoch. All workers must contribute the same chunks in the same
// places, yet at the loss one has begun operation s and another has not. So the pieces of an
// operation are always derived by the same rule, from the plan of its epoch and the losses since,
// in order:
//
//     pieces := layout of the operation by the plan it belongs to
//     for each later loss: take the pieces at the lost endpoint, in order of (epoch, chunk), lay
//                          each out by the new plan, and add the results at the end
//
// and a new epoch's streams take them operation by operation. A worker that has begun operation s
// applies the last step to what it has left (MoveRest), one that has not applies all of them when
// it begins s (Assign). Both come to the same: where somebody has not begun s, nobody has results
// of it.
#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "collective/round/roles.h"
#include "collective/round/worker.h"
#include "collective/wire/messages.h"

namespace muster::collective {

void WorkerRound::AnnouncePlan() {
  const std::string body = Encode(plan());
  for (uint16_t peer = 0; peer < Peers(); ++peer) {
    if (closed_[peer] || (IsReducer(peer) && plan().endpoints[peer].share == 0)) continue;
    if (peer == config_.rank) {
      endpoint_.Arrived(peer, Control(FrameType::kPlan), std::as_bytes(std::span(body)), now_);
    } else {
      output_.SendMessage(peer, Control(FrameType::kPlan), body);
    }
  }
}

// ---- Before the fence ----

void WorkerRound::CloseReducer(uint16_t endpoint) {
  if (closed_[endpoint]) return;
  closed_[endpoint] = true;
  const Unfinished unfinished = output_.Close(endpoint);
  for (const auto& stream : streams_) {
    if (stream->endpoint != endpoint) continue;
    stream->lost = true;
    if (unfinished.bytes > 0 && unfinished.header.epoch == stream->epoch &&
        unfinished.header.chunk == stream->received) {
      MUSTER_CHECK(unfinished.bytes % SizeOf(unfinished.header.dtype) == 0);
      stream->partial = unfinished.bytes;
    }
  }
}

void WorkerRound::ReducerLost(uint16_t endpoint, const std::string& reason) {
  CloseReducer(endpoint);
  if (coordinator_) {
    coordinator_->Lost(endpoint);
  } else {
    output_.SendMessage(0, Control(FrameType::kLost), Encode(LostMessage{endpoint, reason}));
  }
}

void WorkerRound::SendToWorkers(FrameType type, uint32_t epoch, const std::string& body) {
  FrameHeader header = Control(type);
  header.epoch = epoch;
  for (uint16_t rank = 1; rank < workers_; ++rank) output_.SendMessage(rank, header, body);
  OnControl(config_.rank, header, std::as_bytes(std::span(body)));
}

void WorkerRound::Coordinate() {
  while (!over_) {
    if (const auto fence = coordinator_->TakeFence()) {
      if ((fence->epoch & 0xFFFF) == kStreamsMax) {
        return End(Code::kResourceExhausted, kNoRank,
                   fmt::format("{} reducers were lost, one after another", kStreamsMax), true);
      }
      SendToWorkers(FrameType::kFence, fence->epoch, Encode(fence->message));
    } else if (const auto recovery = coordinator_->TakeRecovery()) {
      SendToWorkers(FrameType::kRecover, recovery->epoch, Encode(recovery->message));
    } else {
      return;
    }
  }
}

void WorkerRound::OnFence(uint32_t epoch, const FenceMessage& fence) {
  if (fenced_ || epoch != this->epoch() + 1 || !IsReducer(fence.endpoint) ||
      fence.endpoint >= closed_.size()) {
    return End(Code::kInternal, 0, "rank 0 sent a FENCE frame out of turn", true);
  }
  CloseReducer(fence.endpoint);
  fenced_ = true;
  PrefixMessage prefix;
  prefix.started = begun_;
  // A stream that no operation has used here may have been used elsewhere.
  for (const Epoch& past : epochs_) {
    if (past.plan.endpoints[fence.endpoint].share == 0) continue;
    Stream& stream = StreamFor(fence.endpoint, past.epoch, false);
    stream.lost = true;
    prefix.streams.push_back({stream.epoch, {stream.received, stream.partial}});
  }
  FrameHeader header = Control(FrameType::kPrefix);
  header.epoch = epoch;
  if (coordinator_) {
    const Status status = coordinator_->Prefix(config_.rank, epoch, std::move(prefix));
    MUSTER_CHECK(status);
  } else {
    output_.SendMessage(0, header, Encode(prefix));
  }
}

void WorkerRound::OnRecoveryControl(uint16_t from, const FrameHeader& header,
                                    std::span<const std::byte> body) {
  const auto broken = [&](std::string_view why) {
    LosePeer(from, fmt::format("it sent a {} frame: {}", Name(header.type), why));
  };
  switch (header.type) {
    case FrameType::kLost: {
      const auto message = DecodeLost(body);
      if (!message) return broken(message.error().message);
      if (IsReducer(from)) {
        return ReducerLost(from,
                           fmt::format("it has lost rank {}: {}", message->peer, message->reason));
      }
      if (!coordinator_ || message->peer >= closed_.size() || !IsReducer(message->peer)) {
        return broken(fmt::format("about peer {}", message->peer));
      }
      return ReducerLost(message->peer, message->reason);
    }
    case FrameType::kFence: {
      const auto message = DecodeFence(body);
      if (!message) return broken(message.error().message);
      if (from != 0) return broken("not from rank 0");
      return OnFence(header.epoch, *message);
    }
    case FrameType::kPrefix: {
      const auto message = DecodePrefix(body);
      if (!message) return broken(message.error().message);
      if (!coordinator_) return broken("for rank 0");
      const Status status = coordinator_->Prefix(from, header.epoch, *message);
      if (!status) broken(status.error().message);
      return;
    }
    case FrameType::kRecover: {
      const auto message = DecodeRecover(body);
      if (!message) return broken(message.error().message);
      if (from != 0) return broken("not from rank 0");
      return OnRecover(header.epoch, *message);
    }
    default:
      return broken("out of turn");
  }
}

// ---- After it ----

Status WorkerRound::CheckRecover(uint32_t epoch, const RecoverMessage& recover) {
  const auto wrong = [](std::string_view what) {
    return Fail(Code::kInternal, "rank 0 sent a RECOVER frame {}", what);
  };
  if (!fenced_ || epoch != this->epoch() + 1) return wrong("out of turn");
  const Plan& plan = recover.plan;
  if (plan.workers != workers_ || plan.endpoints.size() != closed_.size()) {
    return wrong("with a plan for others");
  }
  if (recover.endpoint >= closed_.size() || !IsReducer(recover.endpoint) ||
      !closed_[recover.endpoint] || plan.endpoints[recover.endpoint].share != 0 ||
      recover.started < begun_) {
    return wrong("about another loss");
  }
  // The streams are those that this rank has reported, and no rank is ahead of what this one has
  // contributed or further than a window from another.
  size_t lost = 0;
  for (const Epoch& past : epochs_) lost += past.plan.endpoints[recover.endpoint].share > 0 ? 1 : 0;
  if (recover.streams.size() != lost ||
      std::ranges::adjacent_find(recover.streams, std::ranges::greater_equal(),
                                 &StreamRecovery::epoch) != recover.streams.end()) {
    return wrong("about other streams");
  }
  for (const StreamRecovery& recovery : recover.streams) {
    Stream* const own = FindStream(recover.endpoint, recovery.epoch, false);
    const Progress& most = recovery.progress[recovery.holder];
    if (own == nullptr || most.chunks < own->received ||
        most.chunks + (most.bytes > 0 ? 1 : 0) > own->sent) {
      return wrong("that does not fit what this rank reported");
    }
    for (const Progress& progress : recovery.progress) {
      if (progress > most || most.chunks - progress.chunks > own->lane.window_chunks) {
        return wrong("with ranks further apart than a window");
      }
    }
    if (most.bytes > 0) {
      const FrameHeader chunk = ChunkHeader(*own, PieceOf(*own, most.chunks), most.chunks);
      if (most.bytes >= chunk.length || most.bytes % SizeOf(chunk.dtype) != 0) {
        return wrong("with a part that is none");
      }
    }
  }
  return {};
}

void WorkerRound::OnRecover(uint32_t epoch, const RecoverMessage& recover) {
  if (const Status status = CheckRecover(epoch, recover); !status) {
    return End(status.error().code, 0, status.error().message, true);
  }
  epochs_.push_back({epoch, recover.started, recover.plan, recover.endpoint});
  AnnouncePlan();
  if (over_) return;
  for (const StreamRecovery& recovery : recover.streams) {
    Stream& stream = *FindStream(recover.endpoint, recovery.epoch, false);
    if (recovery.holder == config_.rank) PassOn(stream, recovery);
  }
  MoveRest(recover);
  fenced_ = false;
  while (!held_.empty()) {
    const Operation operation = held_.front();
    held_.pop_front();
    Begin(operation, begun_ + 1);
  }
  PumpAll();
}

void WorkerRound::PassOn(Stream& stream, const StreamRecovery& recovery) {
  const Progress& most = recovery.progress[config_.rank];
  const auto pass = [&](uint16_t rank, uint64_t chunk, std::optional<uint32_t> bytes) {
    const Piece& piece = PieceOf(stream, chunk);
    FrameHeader header = ChunkHeader(stream, piece, chunk);
    header.type = FrameType::kPass;
    header.flags = 0;
    if (bytes) header.length = *bytes;
    const std::byte* from =
        piece.in_tail
            ? stream.tail.get() + chunk % stream.lane.window_chunks * stream.lane.chunk_bytes
            : active_.at(piece.sequence).operation.output + header.offset;
    const auto* text = reinterpret_cast<const char*>(from);
    output_.SendMessage(rank, header, header.length > 0 ? std::string(text, header.length) : "");
  };
  for (uint16_t rank = 0; rank < workers_; ++rank) {
    const Progress& has = recovery.progress[rank];
    for (uint64_t chunk = has.chunks; chunk < most.chunks; ++chunk) pass(rank, chunk, std::nullopt);
    if (has < most && most.bytes > 0) pass(rank, most.chunks, most.bytes);
  }
}

// Lays out anew what is behind R in the lost streams, and sets what each operation still waits for.
void WorkerRound::MoveRest(const RecoverMessage& recover) {
  struct Rest {
    uint64_t sequence;
    uint32_t epoch;
    uint64_t chunk;
    uint64_t offset;
    uint64_t length;
    auto operator<=>(const Rest&) const = default;
  };
  std::vector<Rest> rests;
  for (const StreamRecovery& recovery : recover.streams) {
    Stream& stream = *FindStream(recover.endpoint, recovery.epoch, false);
    const Progress& most = recovery.progress[recovery.holder];
    for (const Piece& piece : stream.pieces) {
      const uint64_t end = piece.first + piece.chunks;
      if (end <= most.chunks) continue;
      const uint64_t chunk = std::max(piece.first, most.chunks);
      uint64_t skip = (chunk - piece.first) * stream.lane.chunk_bytes;
      Active& active = active_.at(piece.sequence);
      active.left -= end - chunk;
      if (chunk == most.chunks && most.bytes > 0) {
        skip += most.bytes;
        // The part of it that is final comes by itself, unless it is here.
        const Progress& own = recovery.progress[config_.rank];
        stream.partial_awaited = own < most && !stream.partial_passed;
        if (stream.partial_awaited) ++active.left;
      }
      rests.push_back(
          {piece.sequence, stream.epoch, chunk, piece.offset + skip, piece.length - skip});
    }
    stream.recovered = true;
    stream.end = most.chunks;
    while (!stream.pieces.empty() && stream.pieces.back().first >= most.chunks + (most.bytes > 0)) {
      stream.pieces.pop_back();
    }
    Trim(stream);
  }
  std::ranges::sort(rests);
  for (const Rest& rest : rests) {
    Active& active = active_.at(rest.sequence);
    for (const Slice& slice :
         MakeLayoutOfPart(recover.plan, rest.sequence, rest.offset, rest.length)) {
      Append({epochs_.size() - 1, slice}, rest.sequence, active);
    }
  }
}

std::vector<WorkerRound::Assigned> WorkerRound::Assign(const Operation& operation,
                                                       uint64_t sequence) const {
  size_t base = epochs_.size() - 1;
  while (epochs_[base].after >= sequence) --base;
  std::vector<Assigned> assigned;
  for (const Slice& slice : MakeLayout(epochs_[base].plan, {.kind = operation.kind,
                                                            .bytes = operation.bytes,
                                                            .root = operation.root,
                                                            .sequence = sequence})) {
    assigned.push_back({base, slice});
  }
  for (size_t later = base + 1; later < epochs_.size(); ++later) {
    std::vector<Assigned> moved;
    std::erase_if(assigned, [&](const Assigned& piece) {
      if (piece.slice.endpoint != *epochs_[later].lost) return false;
      for (const Slice& slice : MakeLayoutOfPart(epochs_[later].plan, sequence, piece.slice.offset,
                                                 piece.slice.length)) {
        moved.push_back({later, slice});
      }
      return true;
    });
    assigned.insert(assigned.end(), moved.begin(), moved.end());
  }
  return assigned;
}

// A pass may overtake rank 0's RECOVER: the holder has it, and this rank has been fenced before.
WorkerRound::Stream* WorkerRound::ExpectedPass(uint16_t from, const FrameHeader& header) {
  if (IsReducer(from) || UsesExchange(header.collective)) return nullptr;
  for (const auto& owned : streams_) {
    Stream& stream = *owned;
    if (!stream.lost || stream.epoch != header.epoch || stream.exchange ||
        header.chunk != stream.received || stream.pieces.empty() ||
        header.chunk >= stream.pieces.back().first + stream.pieces.back().chunks) {
      continue;
    }
    const FrameHeader due = ChunkHeader(stream, PieceOf(stream, header.chunk), header.chunk);
    if (due.sequence != header.sequence || due.offset != header.offset ||
        due.total != header.total || header.length > due.length) {
      continue;
    }
    // Whole chunks up to R, then perhaps a part of the next; before RECOVER, R is not known.
    const bool partial = header.length < due.length;
    if (stream.recovered ? (partial ? !stream.partial_awaited || header.chunk != stream.end
                                    : header.chunk >= stream.end)
                         : stream.partial_passed) {
      continue;
    }
    return &stream;
  }
  return nullptr;
}

void WorkerRound::PassArrived(Stream& stream, const FrameHeader& header) {
  const Piece& piece = PieceOf(stream, stream.received);
  const uint64_t sequence = piece.sequence;
  const uint32_t whole = ChunkHeader(stream, piece, stream.received).length;
  if (header.length < whole) {
    // Before RECOVER nobody waits for it, and nobody will.
    if (stream.recovered) {
      stream.partial_awaited = false;
      Credit(sequence);
    } else {
      stream.partial_passed = true;
    }
    return;
  }
  ++stream.received;
  Credit(sequence);
  Trim(stream);
}

}  // namespace muster::collective
