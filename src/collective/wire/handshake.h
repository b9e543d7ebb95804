// Who is at the other end of a connection, proved both ways without showing the job's secret.
//
//     client                                server
//     HELLO {ids, nonce}          ──▶       look the job up
//                                 ◀──       CHALLENGE {ids, nonce}
//     PROOF {HMAC(client)}        ──▶       compare
//     compare                     ◀──       WELCOME {HMAC(server)}
//
// The HMAC-SHA-256 covers a label of the side, HELLO and CHALLENGE with their headers: both nonces,
// job, group, epoch and ranks. Labels differ, so that a proof cannot be sent back to its maker; the
// client proves first, so that a stranger learns nothing. Either side may answer REFUSED with a
// reason in place of any of its messages.
//
// Only message layout and order are here: the hash and the nonces come from outside.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "collective/wire/frame.h"

namespace muster::collective {

inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kMacBytes = 32;

using Nonce = std::array<std::byte, kNonceBytes>;
using Mac = std::array<std::byte, kMacBytes>;

// HMAC-SHA-256 under one job's secret.
using MacFunction = std::function<Mac(std::span<const std::byte> message)>;

// What a peer says it is. Both must agree on all but the rank.
struct PeerIdentity {
  uint64_t job = 0;
  uint32_t group = 0;
  uint32_t epoch = 0;
  uint16_t rank = 0;  // as in FrameHeader: reducers follow the workers
  uint16_t workers = 0;
  uint16_t reducers = 0;

  bool operator==(const PeerIdentity&) const = default;
};

// What to do after a frame has arrived.
struct HandshakeStep {
  std::string send;                  // whole frames; may be empty
  std::optional<PeerIdentity> peer;  // set when the peer is proved: the handshake is over
};

// The side that connected. Thread rule: one thread at a time.
class ClientHandshake {
 public:
  ClientHandshake(const PeerIdentity& self, uint16_t server_rank, const Nonce& nonce,
                  MacFunction mac);

  std::string Hello() const { return hello_; }

  // An error is final; kUnauthenticated or what the server refused with.
  Result<HandshakeStep> On(const FrameHeader& header, std::span<const std::byte> body);

 private:
  enum class State { kAwaitingChallenge, kAwaitingWelcome, kDone, kFailed };

  Result<HandshakeStep> OnChallenge(const FrameHeader& header, std::span<const std::byte> body);
  Result<HandshakeStep> OnWelcome(std::span<const std::byte> body);

  const PeerIdentity self_;
  const uint16_t server_rank_;
  const MacFunction mac_;
  const std::string hello_;
  std::string transcript_;
  State state_ = State::kAwaitingChallenge;
};

// The side that accepted. Thread rule: one thread at a time.
class ServerHandshake {
 public:
  struct Admission {
    uint16_t rank = 0;  // of this side, among that job's
    MacFunction mac;
  };
  // Whether to talk to somebody who says he is this. Its error is what the client is refused with;
  // it should say no more than a stranger may know.
  using Admit = std::function<Result<Admission>(const PeerIdentity& peer)>;

  ServerHandshake(const Nonce& nonce, Admit admit) : nonce_(nonce), admit_(std::move(admit)) {}

  struct Refusal {
    Error error;
    std::string send;  // a REFUSED frame; send it and close the connection
  };
  // An error is final.
  std::expected<HandshakeStep, Refusal> On(const FrameHeader& header,
                                           std::span<const std::byte> body);

 private:
  enum class State { kAwaitingHello, kAwaitingProof, kDone, kFailed };

  Result<HandshakeStep> OnHello(const FrameHeader& header, std::span<const std::byte> body);
  Result<HandshakeStep> OnProof(const FrameHeader& header, std::span<const std::byte> body);

  const Nonce nonce_;
  const Admit admit_;
  PeerIdentity peer_;
  Admission admission_;
  std::string transcript_;
  State state_ = State::kAwaitingHello;
};

// In time that does not depend on where they differ.
bool SameMac(std::span<const std::byte> a, std::span<const std::byte> b);

}  // namespace muster::collective
