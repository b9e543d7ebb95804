#include "collective/wire/handshake.h"

#include <string_view>
#include <utility>

#include "collective/wire/bytes.h"

namespace muster::collective {
namespace {

constexpr std::string_view kClientLabel = "muster reduction client";
constexpr std::string_view kServerLabel = "muster reduction server";

std::string Frame(FrameType type, const PeerIdentity& from, const std::string& body) {
  const FrameHeader header{.type = type,
                           .job = from.job,
                           .group = from.group,
                           .epoch = from.epoch,
                           .length = static_cast<uint32_t>(body.size()),
                           .rank = from.rank};
  const HeaderBytes bytes = EncodeHeader(header);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + body;
}

std::string AsSent(const FrameHeader& header, std::span<const std::byte> body) {
  const HeaderBytes bytes = EncodeHeader(header);
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  text.append(reinterpret_cast<const char*>(body.data()), body.size());
  return text;
}

// HELLO and CHALLENGE: who is meant to be in the job, and the nonce.
std::string Introduction(FrameType type, const PeerIdentity& self, const Nonce& nonce) {
  ByteWriter out;
  out.Put(self.workers);
  out.Put(self.reducers);
  out.PutBytes(nonce);
  return Frame(type, self, out.Take());
}

Result<PeerIdentity> ReadIntroduction(const FrameHeader& header, std::span<const std::byte> body) {
  ByteReader in(body);
  PeerIdentity peer{.job = header.job,
                    .group = header.group,
                    .epoch = header.epoch,
                    .rank = header.rank,
                    .workers = in.Get<uint16_t>(),
                    .reducers = in.Get<uint16_t>()};
  in.GetBytes(kNonceBytes);
  MUSTER_TRY(in.Finish(Name(header.type)));
  if (peer.rank >= uint32_t{peer.workers} + peer.reducers) {
    return Fail(Code::kInvalidArgument, "rank {} of {} workers and {} reducers", peer.rank,
                peer.workers, peer.reducers);
  }
  return peer;
}

std::string ProofBody(const MacFunction& mac, std::string_view label, std::string_view transcript) {
  std::string message(label);
  message.push_back('\0');
  message.append(transcript);
  const Mac proof = mac(std::as_bytes(std::span(message)));
  return {reinterpret_cast<const char*>(proof.data()), proof.size()};
}

Result<HandshakeStep> Unexpected(const FrameHeader& header) {
  return Fail(Code::kFailedPrecondition, "a {} frame out of turn", Name(header.type));
}

Result<HandshakeStep> Refused(std::span<const std::byte> body) {
  ByteReader in(body);
  const auto code = in.Get<uint16_t>();
  const std::string reason = in.GetText();
  MUSTER_TRY(in.Finish("a REFUSED message"));
  if (code == 0 || code > static_cast<uint16_t>(Code::kUnauthenticated)) {
    return Fail(Code::kInvalidArgument, "a REFUSED message with code {}", code);
  }
  return Fail(static_cast<Code>(code), "the peer refused the connection: {}", reason);
}

}  // namespace

bool SameMac(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) return false;
  std::byte difference{0};
  for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

ClientHandshake::ClientHandshake(const PeerIdentity& self, uint16_t server_rank, const Nonce& nonce,
                                 MacFunction mac)
    : self_(self),
      server_rank_(server_rank),
      mac_(std::move(mac)),
      hello_(Introduction(FrameType::kHello, self, nonce)),
      transcript_(hello_) {}

Result<HandshakeStep> ClientHandshake::On(const FrameHeader& header,
                                          std::span<const std::byte> body) {
  const State state = std::exchange(state_, State::kFailed);
  if (header.type == FrameType::kRefused) return Refused(body);
  if (state == State::kAwaitingChallenge && header.type == FrameType::kChallenge) {
    return OnChallenge(header, body);
  }
  if (state == State::kAwaitingWelcome && header.type == FrameType::kWelcome) {
    return OnWelcome(body);
  }
  return Unexpected(header);
}

Result<HandshakeStep> ClientHandshake::OnChallenge(const FrameHeader& header,
                                                   std::span<const std::byte> body) {
  MUSTER_ASSIGN(const PeerIdentity server, ReadIntroduction(header, body));
  PeerIdentity expected = self_;
  expected.rank = server_rank_;
  if (server != expected) {
    return Fail(Code::kFailedPrecondition,
                "the peer is rank {} of job {:016x}, group {}, epoch {}, {}+{} members, where rank "
                "{} of job {:016x}, group {}, epoch {}, {}+{} was meant to be",
                server.rank, server.job, server.group, server.epoch, server.workers,
                server.reducers, expected.rank, expected.job, expected.group, expected.epoch,
                expected.workers, expected.reducers);
  }
  transcript_ += AsSent(header, body);
  state_ = State::kAwaitingWelcome;
  return HandshakeStep{Frame(FrameType::kProof, self_, ProofBody(mac_, kClientLabel, transcript_)),
                       std::nullopt};
}

Result<HandshakeStep> ClientHandshake::OnWelcome(std::span<const std::byte> body) {
  const std::string proof = ProofBody(mac_, kServerLabel, transcript_);
  if (!SameMac(body, std::as_bytes(std::span(proof)))) {
    return Fail(Code::kUnauthenticated, "the peer does not know the job's secret");
  }
  state_ = State::kDone;
  PeerIdentity server = self_;
  server.rank = server_rank_;
  return HandshakeStep{"", server};
}

std::expected<HandshakeStep, ServerHandshake::Refusal> ServerHandshake::On(
    const FrameHeader& header, std::span<const std::byte> body) {
  const State state = std::exchange(state_, State::kFailed);
  Result<HandshakeStep> step = Unexpected(header);
  if (header.type == FrameType::kRefused) {
    step = Refused(body);
  } else if (state == State::kAwaitingHello && header.type == FrameType::kHello) {
    step = OnHello(header, body);
  } else if (state == State::kAwaitingProof && header.type == FrameType::kProof) {
    step = OnProof(header, body);
  }
  if (step) return *std::move(step);
  ByteWriter out;
  out.Put(static_cast<uint16_t>(step.error().code));
  out.PutText(step.error().message);
  const PeerIdentity self{
      .job = header.job, .group = header.group, .epoch = header.epoch, .rank = admission_.rank};
  return std::unexpected(Refusal{step.error(), Frame(FrameType::kRefused, self, out.Take())});
}

Result<HandshakeStep> ServerHandshake::OnHello(const FrameHeader& header,
                                               std::span<const std::byte> body) {
  MUSTER_ASSIGN(peer_, ReadIntroduction(header, body));
  MUSTER_ASSIGN(admission_, admit_(peer_));
  PeerIdentity self = peer_;
  self.rank = admission_.rank;
  const std::string challenge = Introduction(FrameType::kChallenge, self, nonce_);
  transcript_ = AsSent(header, body) + challenge;
  state_ = State::kAwaitingProof;
  return HandshakeStep{challenge, std::nullopt};
}

Result<HandshakeStep> ServerHandshake::OnProof(const FrameHeader& header,
                                               std::span<const std::byte> body) {
  const std::string proof = ProofBody(admission_.mac, kClientLabel, transcript_);
  if (!SameMac(body, std::as_bytes(std::span(proof)))) {
    return Fail(Code::kUnauthenticated, "rank {} does not know the job's secret", header.rank);
  }
  PeerIdentity self = peer_;
  self.rank = admission_.rank;
  state_ = State::kDone;
  return HandshakeStep{
      Frame(FrameType::kWelcome, self, ProofBody(admission_.mac, kServerLabel, transcript_)),
      peer_};
}

}  // namespace muster::collective
