#include "collective/wire/messages.h"

#include "collective/wire/bytes.h"

namespace muster::collective {
namespace {

void Put(const Lane& lane, ByteWriter& out) {
  out.Put(lane.chunk_bytes);
  out.Put(lane.window_chunks);
}

Lane GetLane(ByteReader& in) {
  Lane lane;
  lane.chunk_bytes = in.Get<uint32_t>();
  lane.window_chunks = in.Get<uint32_t>();
  return lane;
}

void Put(const Progress& progress, ByteWriter& out) {
  out.Put(progress.chunks);
  out.Put(progress.bytes);
}

Progress GetProgress(ByteReader& in) {
  Progress progress;
  progress.chunks = in.Get<uint64_t>();
  progress.bytes = in.Get<uint32_t>();
  return progress;
}

void Put(const Plan& plan, ByteWriter& out) {
  out.Put(static_cast<uint16_t>(plan.workers));
  out.Put(static_cast<uint16_t>(plan.reducers));
  out.Put(plan.whole_bytes);
  Put(plan.exchange, out);
  for (const Endpoint& endpoint : plan.endpoints) {
    out.Put(endpoint.share);
    Put(endpoint.lane, out);
  }
}

Plan GetPlan(ByteReader& in) {
  Plan plan;
  plan.workers = in.Get<uint16_t>();
  plan.reducers = in.Get<uint16_t>();
  plan.whole_bytes = in.Get<uint32_t>();
  plan.exchange = GetLane(in);
  constexpr size_t kEndpointBytes = 12;
  const size_t endpoints = size_t{plan.workers} + plan.reducers;
  // Nothing is allocated for endpoints that are not there.
  if (in.left() < endpoints * kEndpointBytes) return plan;
  plan.endpoints.resize(endpoints);
  for (Endpoint& endpoint : plan.endpoints) {
    endpoint.share = in.Get<uint32_t>();
    endpoint.lane = GetLane(in);
  }
  return plan;
}

Status CheckStreams(size_t count) {
  if (count <= kStreamsMax) return {};
  return Fail(Code::kInvalidArgument, "{} streams of one endpoint; the most are {}", count,
              kStreamsMax);
}

}  // namespace

std::string Encode(const Plan& plan) {
  ByteWriter out;
  Put(plan, out);
  return out.Take();
}

std::string Encode(const AbortMessage& message) {
  ByteWriter out;
  out.Put(static_cast<uint16_t>(message.code));
  out.Put(message.rank);
  out.PutText(message.reason);
  return out.Take();
}

std::string Encode(const LostMessage& message) {
  ByteWriter out;
  out.Put(message.peer);
  out.PutText(message.reason);
  return out.Take();
}

std::string Encode(const FenceMessage& message) {
  ByteWriter out;
  out.Put(message.endpoint);
  return out.Take();
}

std::string Encode(const PrefixMessage& message) {
  ByteWriter out;
  out.Put(message.started);
  out.Put(static_cast<uint16_t>(message.streams.size()));
  for (const StreamProgress& stream : message.streams) {
    out.Put(stream.epoch);
    Put(stream.progress, out);
  }
  return out.Take();
}

std::string Encode(const RecoverMessage& message) {
  ByteWriter out;
  out.Put(message.endpoint);
  out.Put(message.started);
  Put(message.plan, out);
  out.Put(static_cast<uint16_t>(message.streams.size()));
  for (const StreamRecovery& stream : message.streams) {
    out.Put(stream.epoch);
    out.Put(stream.holder);
    for (const Progress& progress : stream.progress) Put(progress, out);
  }
  return out.Take();
}

Result<Plan> DecodePlan(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  Plan plan = GetPlan(in);
  MUSTER_TRY(in.Finish("a plan"));
  MUSTER_TRY(CheckPlan(plan));
  return plan;
}

Result<AbortMessage> DecodeAbort(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  AbortMessage message;
  const auto code = in.Get<uint16_t>();
  message.rank = in.Get<uint16_t>();
  message.reason = in.GetText();
  MUSTER_TRY(in.Finish("an ABORT message"));
  if (code == 0 || code > static_cast<uint16_t>(Code::kUnauthenticated)) {
    return Fail(Code::kInvalidArgument, "an ABORT message with code {}", code);
  }
  message.code = static_cast<Code>(code);
  return message;
}

Result<LostMessage> DecodeLost(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  LostMessage message;
  message.peer = in.Get<uint16_t>();
  message.reason = in.GetText();
  MUSTER_TRY(in.Finish("a LOST message"));
  return message;
}

Result<FenceMessage> DecodeFence(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const FenceMessage message{in.Get<uint16_t>()};
  MUSTER_TRY(in.Finish("a FENCE message"));
  return message;
}

Result<PrefixMessage> DecodePrefix(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  PrefixMessage message;
  message.started = in.Get<uint64_t>();
  const size_t streams = in.Get<uint16_t>();
  MUSTER_TRY(CheckStreams(streams));
  for (size_t i = 0; i < streams; ++i) {
    const auto epoch = in.Get<uint32_t>();
    message.streams.push_back({epoch, GetProgress(in)});
  }
  MUSTER_TRY(in.Finish("a PREFIX message"));
  return message;
}

Result<RecoverMessage> DecodeRecover(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  RecoverMessage message;
  message.endpoint = in.Get<uint16_t>();
  message.started = in.Get<uint64_t>();
  message.plan = GetPlan(in);
  MUSTER_TRY(CheckPlan(message.plan));
  const size_t streams = in.Get<uint16_t>();
  MUSTER_TRY(CheckStreams(streams));
  for (size_t i = 0; i < streams; ++i) {
    StreamRecovery stream;
    stream.epoch = in.Get<uint32_t>();
    stream.holder = in.Get<uint16_t>();
    constexpr size_t kProgressBytes = 12;
    if (in.left() < message.plan.workers * kProgressBytes ||
        stream.holder >= message.plan.workers) {
      return Fail(Code::kInvalidArgument, "a RECOVER message is cut off");
    }
    for (uint32_t rank = 0; rank < message.plan.workers; ++rank) {
      stream.progress.push_back(GetProgress(in));
    }
    message.streams.push_back(std::move(stream));
  }
  MUSTER_TRY(in.Finish("a RECOVER message"));
  return message;
}

}  // namespace muster::collective
