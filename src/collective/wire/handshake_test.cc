#include "collective/wire/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "collective/wire/decoder.h"

namespace muster::collective {
namespace {

using testing::HasSubstr;

// Stands in for HMAC-SHA-256: depends on the key and on every byte in its place.
MacFunction FakeMac(uint64_t key) {
  return [key](std::span<const std::byte> message) {
    Mac mac;
    uint64_t hash = key * 0x9E3779B97F4A7C15;
    for (const std::byte byte : message) {
      hash = (hash ^ std::to_integer<uint64_t>(byte)) * 0x100000001B3;
      hash ^= hash >> 29;
    }
    for (std::byte& byte : mac) {
      hash = hash * 6364136223846793005 + 1442695040888963407;
      byte = static_cast<std::byte>(hash >> 56);
    }
    return mac;
  };
}

Nonce NonceOf(int value) {
  Nonce nonce;
  nonce.fill(static_cast<std::byte>(value));
  return nonce;
}

struct Message {
  FrameHeader header;
  std::vector<std::byte> body;
};

Message Parse(const std::string& frame) {
  struct Sink : FrameSink {
    std::byte* Place(const FrameHeader&) override { return nullptr; }
    void Arrived(const FrameHeader& header, std::span<const std::byte> payload) override {
      message = {header, {payload.begin(), payload.end()}};
      ++count;
    }
    Message message;
    int count = 0;
  } sink;
  FrameDecoder decoder(sink);
  EXPECT_TRUE(decoder.Feed(std::as_bytes(std::span(frame))));
  EXPECT_EQ(sink.count, 1);
  return sink.message;
}

const PeerIdentity kClient{
    .job = 0xABCDEF, .group = 3, .epoch = 0x10000, .rank = 2, .workers = 4, .reducers = 1};
constexpr uint16_t kServerRank = 4;

ServerHandshake::Admit AdmitWith(uint64_t key) {
  return [key](const PeerIdentity& peer) -> Result<ServerHandshake::Admission> {
    if (peer.job != 0xABCDEF) return Fail(Code::kNotFound, "no such job here");
    return ServerHandshake::Admission{kServerRank, FakeMac(key)};
  };
}

TEST(HandshakeTest, BothProveThemselves) {
  ClientHandshake client(kClient, kServerRank, NonceOf(1), FakeMac(7));
  ServerHandshake server(NonceOf(2), AdmitWith(7));
  const Message hello = Parse(client.Hello());
  const auto challenge = server.On(hello.header, hello.body);
  ASSERT_TRUE(challenge);
  EXPECT_FALSE(challenge->peer);
  const Message m1 = Parse(challenge->send);
  const auto proof = client.On(m1.header, m1.body);
  ASSERT_TRUE(proof);
  EXPECT_FALSE(proof->peer);
  const Message m2 = Parse(proof->send);
  const auto welcome = server.On(m2.header, m2.body);
  ASSERT_TRUE(welcome);
  EXPECT_EQ(welcome->peer, kClient);
  const Message m3 = Parse(welcome->send);
  const auto done = client.On(m3.header, m3.body);
  ASSERT_TRUE(done);
  ASSERT_TRUE(done->peer);
  EXPECT_EQ(done->peer->rank, kServerRank);
  EXPECT_NE(m2.body, m3.body);
}

TEST(HandshakeTest, TheWrongSecretIsRefusedInWords) {
  ClientHandshake client(kClient, kServerRank, NonceOf(1), FakeMac(8));
  ServerHandshake server(NonceOf(2), AdmitWith(7));
  const Message hello = Parse(client.Hello());
  const Message m1 = Parse(server.On(hello.header, hello.body)->send);
  const Message m2 = Parse(client.On(m1.header, m1.body)->send);
  const auto refused = server.On(m2.header, m2.body);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().error.code, Code::kUnauthenticated);
  const Message m3 = Parse(refused.error().send);
  const auto seen = client.On(m3.header, m3.body);
  ASSERT_FALSE(seen);
  EXPECT_EQ(seen.error().code, Code::kUnauthenticated);
  EXPECT_THAT(seen.error().message, HasSubstr("rank 2 does not know the job's secret"));
}

TEST(HandshakeTest, AServerWithoutTheSecretIsFoundOut) {
  ClientHandshake client(kClient, kServerRank, NonceOf(1), FakeMac(7));
  ServerHandshake knows(NonceOf(2), AdmitWith(7));
  const Message hello = Parse(client.Hello());
  const Message m1 = Parse(knows.On(hello.header, hello.body)->send);
  const Message proof = Parse(client.On(m1.header, m1.body)->send);
  // An impostor can only send something back: here the client's own proof.
  Message forged = proof;
  forged.header.type = FrameType::kWelcome;
  const auto seen = client.On(forged.header, forged.body);
  ASSERT_FALSE(seen);
  EXPECT_EQ(seen.error().code, Code::kUnauthenticated);
}

TEST(HandshakeTest, ARecordedProofIsWorthless) {
  ClientHandshake client(kClient, kServerRank, NonceOf(1), FakeMac(7));
  ServerHandshake first(NonceOf(2), AdmitWith(7));
  const Message hello = Parse(client.Hello());
  const Message m1 = Parse(first.On(hello.header, hello.body)->send);
  const Message proof = Parse(client.On(m1.header, m1.body)->send);
  ServerHandshake second(NonceOf(3), AdmitWith(7));
  ASSERT_TRUE(second.On(hello.header, hello.body));
  EXPECT_FALSE(second.On(proof.header, proof.body));
}

TEST(HandshakeTest, UnknownJobWrongEpochWrongRank) {
  PeerIdentity stranger = kClient;
  stranger.job = 1;
  ClientHandshake client(stranger, kServerRank, NonceOf(1), FakeMac(7));
  ServerHandshake server(NonceOf(2), AdmitWith(7));
  const Message hello = Parse(client.Hello());
  const auto refused = server.On(hello.header, hello.body);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().error.message, "no such job here");

  ClientHandshake other(kClient, kServerRank, NonceOf(1), FakeMac(7));
  ServerHandshake right(NonceOf(2), AdmitWith(7));
  const Message m0 = Parse(other.Hello());
  Message challenge = Parse(right.On(m0.header, m0.body)->send);
  challenge.header.epoch += 1;
  const auto seen = other.On(challenge.header, challenge.body);
  ASSERT_FALSE(seen);
  EXPECT_THAT(seen.error().message, HasSubstr("epoch 65537"));
}

TEST(HandshakeTest, FramesOutOfTurnEndIt) {
  ServerHandshake server(NonceOf(2), AdmitWith(7));
  ClientHandshake client(kClient, kServerRank, NonceOf(1), FakeMac(7));
  const Message hello = Parse(client.Hello());
  ASSERT_TRUE(server.On(hello.header, hello.body));
  EXPECT_FALSE(server.On(hello.header, hello.body));
  EXPECT_FALSE(server.On(hello.header, hello.body));  // and for good
  EXPECT_FALSE(client.On(hello.header, hello.body));
  ServerHandshake shortened(NonceOf(2), AdmitWith(7));
  EXPECT_FALSE(shortened.On(hello.header, std::span(hello.body).first(10)));
}

}  // namespace
}  // namespace muster::collective
