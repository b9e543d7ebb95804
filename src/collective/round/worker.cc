#include "collective/round/worker.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "collective/round/roles.h"
#include "collective/wire/messages.h"

namespace muster::collective {

void WorkerRound::Port::Send(uint16_t peer, const FrameHeader& header,
                             std::span<const std::byte> payload) {
  if (peer == round_.config_.rank) {
    round_.local_.push_back({header, payload});
  } else {
    round_.output_.Send(peer, header, payload);
  }
}

// The endpoint's only messages are ABORTs: every rank gets one, this one included.
void WorkerRound::Port::SendMessage(uint16_t peer, const FrameHeader& header, std::string body) {
  if (peer != round_.config_.rank) {
    return round_.output_.SendMessage(peer, header, std::move(body));
  }
  const auto message = DecodeAbort(std::as_bytes(std::span(body)));
  MUSTER_CHECK(message);
  round_.End(message->code, message->rank, message->reason, false);
}

WorkerRound::WorkerRound(const WorkerConfig& config, WorkerOutput& output)
    : config_(config),
      workers_(static_cast<uint16_t>(config.plan.workers)),
      output_(output),
      port_(*this),
      endpoint_({.job = config.job,
                 .group = config.group,
                 .id = config.rank,
                 .workers = static_cast<uint16_t>(config.plan.workers),
                 .divisor = config.divisor,
                 .memory_bytes_max = config.memory_bytes_max,
                 .checked = config.checked},
                port_),
      closed_(config.plan.endpoints.size()),
      left_(config.plan.endpoints.size()) {
  MUSTER_CHECK(CheckPlan(config.plan) && config.rank < workers_);
  epochs_.push_back({config.epoch, 0, config.plan, std::nullopt});
  if (config.rank == 0) coordinator_.emplace(config.epoch, config.plan, config.replan);
}

void WorkerRound::Open() { AnnouncePlan(); }

FrameHeader WorkerRound::Control(FrameType type) const {
  return {.type = type,
          .job = config_.job,
          .group = config_.group,
          .epoch = epoch(),
          .rank = config_.rank};
}

// ---- Operations ----

Status WorkerRound::Check(const Operation& operation) const {
  const std::string_view name = Name(operation.kind);
  if (!IsValid(operation.kind) || !IsValid(operation.dtype) || !IsValid(operation.op)) {
    return Fail(Code::kInvalidArgument, "{} of {} ({})", name, Name(operation.dtype),
                Name(operation.op));
  }
  const size_t parts = UsesExchange(operation.kind) ? workers_ : 1;
  if (operation.bytes % (SizeOf(operation.dtype) * parts) != 0) {
    return Fail(Code::kInvalidArgument, "{} of {} bytes: no whole number of {} for {} ranks", name,
                operation.bytes, Name(operation.dtype), parts);
  }
  if (operation.bytes > 0 && (operation.input == nullptr || operation.output == nullptr)) {
    return Fail(Code::kInvalidArgument, "{} without a buffer", name);
  }
  if (operation.kind == Collective::kBarrier && operation.bytes > 0) {
    return Fail(Code::kInvalidArgument, "a barrier with {} bytes", operation.bytes);
  }
  const bool rooted = operation.kind == Collective::kBroadcast;
  if (rooted ? operation.root >= workers_ : operation.root != kNoRank) {
    return Fail(Code::kInvalidArgument, "{} with root {} among {} ranks", name, operation.root,
                workers_);
  }
  return {};
}

Result<uint64_t> WorkerRound::Start(const Operation& operation, Instant now) {
  now_ = now;
  if (over_) return std::unexpected(*over_);
  MUSTER_TRY(Check(operation));
  const uint64_t sequence = begun_ + held_.size() + 1;
  if (fenced_) {
    held_.push_back(operation);
    return sequence;
  }
  Begin(operation, sequence);
  PumpAll();
  Settle();
  return sequence;
}

// What this rank has itself need not travel.
void WorkerRound::CopyOwn(const Operation& operation) const {
  std::byte* to = operation.output;
  uint64_t bytes = operation.bytes;
  if (operation.kind == Collective::kAllGather) {
    bytes /= workers_;
    to += bytes * config_.rank;
  } else if (operation.kind != Collective::kBroadcast || operation.root != config_.rank) {
    return;
  }
  if (to != operation.input && bytes > 0) std::memmove(to, operation.input, bytes);
}

void WorkerRound::Begin(const Operation& operation, uint64_t sequence) {
  MUSTER_CHECK(sequence == begun_ + 1);
  begun_ = sequence;
  CopyOwn(operation);
  Active& active = active_[sequence];
  active.operation = operation;
  for (const Assigned& assigned : Assign(operation, sequence)) {
    Append(assigned, sequence, active);
  }
}

void WorkerRound::Append(const Assigned& assigned, uint64_t sequence, Active& active) {
  const Operation& operation = active.operation;
  const Slice& slice = assigned.slice;
  const bool exchange = UsesExchange(operation.kind);
  Stream& stream =
      StreamFor(static_cast<uint16_t>(slice.endpoint), epochs_[assigned.epoch].epoch, exchange);
  Piece piece;
  piece.sequence = sequence;
  piece.offset = slice.offset;
  piece.length = slice.length;
  piece.first = stream.end;
  piece.chunks = slice.Chunks();
  piece.header = {.type = FrameType::kContribution,
                  .dtype = operation.dtype,
                  .op = operation.op,
                  .collective = operation.kind,
                  .job = config_.job,
                  .group = config_.group,
                  .epoch = stream.epoch,
                  .sequence = sequence,
                  .total = operation.bytes,
                  .rank = config_.rank,
                  .root = exchange ? static_cast<uint16_t>(slice.endpoint) : operation.root};
  stream.end += piece.chunks;
  active.left += piece.chunks;
  stream.pieces.push_back(piece);
}

WorkerRound::Stream* WorkerRound::FindStream(uint16_t endpoint, uint32_t epoch, bool exchange) {
  // The newest epoch's are asked for most.
  for (auto it = streams_.rbegin(); it != streams_.rend(); ++it) {
    Stream& stream = **it;
    if (stream.endpoint == endpoint && stream.epoch == epoch && stream.exchange == exchange) {
      return &stream;
    }
  }
  return nullptr;
}

WorkerRound::Stream& WorkerRound::StreamFor(uint16_t endpoint, uint32_t epoch, bool exchange) {
  if (Stream* stream = FindStream(endpoint, epoch, exchange)) return *stream;
  auto stream = std::make_unique<Stream>();
  const Plan& plan = std::ranges::find(epochs_, epoch, &Epoch::epoch)->plan;
  stream->endpoint = endpoint;
  stream->epoch = epoch;
  stream->exchange = exchange;
  stream->lane = exchange ? plan.exchange : plan.endpoints[endpoint].lane;
  streams_.push_back(std::move(stream));
  return *streams_.back();
}

WorkerRound::Piece& WorkerRound::PieceOf(Stream& stream, uint64_t chunk) {
  const auto after = std::ranges::upper_bound(stream.pieces, chunk, {}, &Piece::first);
  MUSTER_CHECK(after != stream.pieces.begin());
  Piece& piece = *std::prev(after);
  MUSTER_CHECK(chunk < piece.first + piece.chunks);
  return piece;
}

FrameHeader WorkerRound::ChunkHeader(const Stream& stream, const Piece& piece,
                                     uint64_t chunk) const {
  FrameHeader header = piece.header;
  const uint64_t begin = (chunk - piece.first) * stream.lane.chunk_bytes;
  header.offset = piece.offset + begin;
  header.length =
      static_cast<uint32_t>(std::min<uint64_t>(stream.lane.chunk_bytes, piece.length - begin));
  header.chunk = chunk;
  header.flags = static_cast<uint8_t>((Contributes(header, config_.rank) ? 0 : kFlagEmpty) |
                                      (config_.checked ? kFlagChecked : 0));
  return header;
}

// ---- Contributions ----

void WorkerRound::PumpAll() {
  for (size_t i = 0; i < streams_.size(); ++i) Pump(*streams_[i]);
}

void WorkerRound::Pump(Stream& stream) {
  if (stream.lost || closed_[stream.endpoint]) return;
  const uint64_t until = std::min(stream.end, stream.received + stream.lane.window_chunks);
  while (stream.sent < until && !over_) {
    const Piece& piece = PieceOf(stream, stream.sent);
    const FrameHeader header = ChunkHeader(stream, piece, stream.sent);
    std::span<const std::byte> payload;
    if ((header.flags & kFlagEmpty) == 0) {
      const Operation& operation = active_.at(piece.sequence).operation;
      // An all-gather's input is this rank's block alone.
      const uint64_t base =
          operation.kind == Collective::kAllGather ? operation.bytes / workers_ * config_.rank : 0;
      payload = {operation.input + (header.offset - base), header.length};
    }
    ++stream.sent;
    if (stream.endpoint == config_.rank) {
      endpoint_.Contribute(header, payload, now_);
    } else {
      output_.Send(stream.endpoint, header, payload);
    }
  }
}

// ---- Results ----

std::byte* WorkerRound::ResultPlace(const FrameHeader& header) {
  const Operation& operation = active_.at(header.sequence).operation;
  const uint64_t base =
      operation.kind == Collective::kReduceScatter ? operation.bytes / workers_ * config_.rank : 0;
  return operation.output + (header.offset - base);
}

// The stream whose next result this is, or nullptr if the frame is not due: an endpoint that is
// given up may go on for a while, any other breaks the rules.
WorkerRound::Stream* WorkerRound::ExpectedResult(uint16_t from, const FrameHeader& header) {
  Stream* const stream = FindStream(from, header.epoch, UsesExchange(header.collective));
  if (stream == nullptr || stream->lost || header.chunk != stream->received ||
      stream->received == stream->sent) {
    return nullptr;
  }
  FrameHeader expected = ChunkHeader(*stream, PieceOf(*stream, header.chunk), header.chunk);
  expected.type = FrameType::kResult;
  expected.rank = from;
  expected.flags = static_cast<uint8_t>((Receives(header, config_.rank) ? 0 : kFlagEmpty) |
                                        (header.flags & kFlagChecked));
  return header == expected ? stream : nullptr;
}

std::byte* WorkerRound::Place(uint16_t from, const FrameHeader& header) {
  if (over_ || closed_[from]) return nullptr;
  if (header.type == FrameType::kContribution) return endpoint_.Place(from, header);
  if (header.type == FrameType::kResult && ExpectedResult(from, header) != nullptr) {
    return ResultPlace(header);
  }
  if (header.type == FrameType::kPass && ExpectedPass(from, header) != nullptr) {
    return ResultPlace(header);
  }
  // Arrived() would not be called for a frame that is dropped: this is the place to object.
  const std::string reason = fmt::format("endpoint {} sent a {} frame out of turn: {}", from,
                                         Name(header.type), Describe(from, header));
  LosePeer(from, reason);
  Settle();
  return nullptr;
}

void WorkerRound::Arrived(uint16_t from, const FrameHeader& header,
                          std::span<const std::byte> payload, Instant now) {
  now_ = now;
  if (over_ || closed_[from]) return;
  switch (header.type) {
    case FrameType::kContribution:
    case FrameType::kPlan:
      endpoint_.Arrived(from, header, payload, now);
      break;
    case FrameType::kResult:
    case FrameType::kPass: {
      Stream* const stream = header.type == FrameType::kResult ? ExpectedResult(from, header)
                                                               : ExpectedPass(from, header);
      if (stream == nullptr) {
        LosePeer(from, fmt::format("it sent a {} frame out of turn", Name(header.type)));
      } else if (header.type == FrameType::kResult) {
        ResultArrived(*stream);
        Pump(*stream);
      } else {
        PassArrived(*stream, header);
      }
      break;
    }
    default:
      OnControl(from, header, payload);
  }
  Settle();
}

void WorkerRound::ResultArrived(Stream& stream) {
  const uint64_t sequence = PieceOf(stream, stream.received).sequence;
  ++stream.received;
  Credit(sequence);
  Trim(stream);
}

// Of a reducer's stream the last window is kept, in case others have yet to get it.
void WorkerRound::Trim(Stream& stream) {
  const uint64_t keep = IsReducer(stream.endpoint) && !stream.recovered
                            ? std::min<uint64_t>(stream.received, stream.lane.window_chunks)
                            : 0;
  while (!stream.pieces.empty()) {
    const Piece& front = stream.pieces.front();
    if (front.first + front.chunks > stream.received - keep) break;
    stream.pieces.pop_front();
  }
}

void WorkerRound::Credit(uint64_t sequence) {
  const auto found = active_.find(sequence);
  MUSTER_CHECK(found != active_.end() && found->second.left > 0);
  if (--found->second.left > 0) return;
  const Operation operation = found->second.operation;
  active_.erase(found);
  KeepTail(sequence, operation);
  output_.Done(sequence, {});
}

void WorkerRound::KeepTail(uint64_t sequence, const Operation& operation) {
  for (const auto& owned : streams_) {
    Stream& stream = *owned;
    if (!IsReducer(stream.endpoint) || stream.recovered) continue;
    const uint64_t window = stream.lane.window_chunks;
    const uint64_t kept = stream.received - std::min(stream.received, window);
    for (Piece& piece : stream.pieces) {
      if (piece.sequence != sequence) continue;
      piece.in_tail = true;
      if (piece.length == 0) continue;
      if (!stream.tail) {
        stream.tail = std::make_unique_for_overwrite<std::byte[]>(stream.lane.WindowBytes());
      }
      const uint64_t end = std::min(piece.first + piece.chunks, stream.received);
      for (uint64_t chunk = std::max(piece.first, kept); chunk < end; ++chunk) {
        const FrameHeader header = ChunkHeader(stream, piece, chunk);
        std::memcpy(stream.tail.get() + chunk % window * stream.lane.chunk_bytes,
                    operation.output + header.offset, header.length);
      }
    }
  }
}

// Takes in what the own endpoint has sent to this worker, which may bring it to send more, and does
// what the coordinator has to do, which may as well.
void WorkerRound::Settle() {
  while (!over_) {
    for (size_t i = 0; i < local_.size() && !over_; ++i) {
      const auto [header, payload] = local_[i];
      Stream* const stream = ExpectedResult(config_.rank, header);
      MUSTER_CHECK(stream != nullptr);
      if (!payload.empty()) std::memcpy(ResultPlace(header), payload.data(), payload.size());
      ResultArrived(*stream);
      Pump(*stream);
    }
    local_.clear();
    if (coordinator_ && !over_) Coordinate();
    if (local_.empty()) return;
  }
}

// ---- The end ----

void WorkerRound::End(Code code, uint16_t rank, const std::string& reason, bool tell) {
  if (over_) return;
  over_ = Error{code, reason};
  output_.DropQueued();
  if (tell) {
    const std::string body = Encode(AbortMessage{code, rank, reason});
    for (uint16_t peer = 0; peer < Peers(); ++peer) {
      if (peer != config_.rank && !closed_[peer]) {
        output_.SendMessage(peer, Control(FrameType::kAbort), body);
      }
    }
  }
  std::vector<uint64_t> sequences;
  sequences.reserve(operations());
  for (const auto& [sequence, active] : active_) sequences.push_back(sequence);
  for (size_t i = 0; i < held_.size(); ++i) sequences.push_back(begun_ + 1 + i);
  active_.clear();
  held_.clear();
  for (const uint64_t sequence : sequences) output_.Done(sequence, std::unexpected(*over_));
}

void WorkerRound::Abort(Code code, const std::string& reason) {
  End(code, config_.rank, fmt::format("rank {}: {}", config_.rank, reason), true);
}

void WorkerRound::PeerLost(uint16_t peer, const std::string& reason, Instant now) {
  now_ = now;
  LosePeer(peer, reason);
  Settle();
}

void WorkerRound::LosePeer(uint16_t peer, const std::string& reason) {
  if (over_ || closed_[peer] || peer == config_.rank) return;
  if (IsReducer(peer)) return ReducerLost(peer, reason);
  output_.Close(peer);
  closed_[peer] = true;
  if (left_[peer] && operations() == 0) {
    over_ = Error{Code::kUnavailable, fmt::format("rank {} has left", peer)};
    return;
  }
  End(Code::kUnavailable, peer,
      fmt::format("rank {} {}: {}", peer, left_[peer] ? "has left" : "is lost", reason), true);
}

void WorkerRound::OnControl(uint16_t from, const FrameHeader& header,
                            std::span<const std::byte> body) {
  switch (header.type) {
    case FrameType::kHeartbeat:
      return;
    case FrameType::kGoodbye:
      left_[from] = true;
      return;
    case FrameType::kAbort: {
      const auto message = DecodeAbort(body);
      if (!message) return LosePeer(from, message.error().message);
      return End(message->code, message->rank, message->reason, false);
    }
    default:
      return OnRecoveryControl(from, header, body);
  }
}

}  // namespace muster::collective
