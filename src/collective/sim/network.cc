#include "collective/sim/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace muster::collective::sim {
namespace {

uint64_t Hash(std::span<const std::byte> bytes) {
  uint64_t hash = 0xCBF29CE484222325;
  while (bytes.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    hash = (hash ^ word) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 32;
    bytes = bytes.subspan(8);
  }
  for (const std::byte byte : bytes)
    hash = (hash ^ std::to_integer<uint64_t>(byte)) * 0x100000001B3;
  return hash;
}

}  // namespace

Network::Network(size_t nodes, Random& random)
    : random_(random),
      nodes_(nodes),
      links_(nodes * nodes),
      frozen_(nodes),
      slow_(nodes, 1),
      listed_(nodes * nodes) {
  for (uint16_t from = 0; from < Nodes(); ++from) {
    for (uint16_t to = 0; to < Nodes(); ++to) {
      LinkOf(from, to).from = from;
      LinkOf(from, to).to = to;
    }
  }
}

void Network::Queue(uint16_t from, uint16_t to, Frame frame) {
  Link& link = LinkOf(from, to);
  if (link.closed) return;
  link.queued.push_back(std::move(frame));
  const auto index = static_cast<uint32_t>(&link - links_.data());
  if (!listed_[index]) {
    listed_[index] = true;
    busy_.push_back(index);
  }
}

void Network::Send(uint16_t from, uint16_t to, const FrameHeader& header,
                   std::span<const std::byte> payload) {
  Queue(from, to, {.header = header, .payload = payload, .hash = Hash(payload)});
}

void Network::SendMessage(uint16_t from, uint16_t to, const FrameHeader& header, std::string body) {
  Frame frame{.header = header, .owned = true, .bytes = std::move(body)};
  frame.header.length = static_cast<uint32_t>(frame.bytes.size());
  Queue(from, to, std::move(frame));
}

bool Network::HasWork(const Link& link) const {
  return !link.closed && !link.stalled && !(link.queued.empty() && link.in_flight.empty());
}

bool Network::Step() {
  // Tries at random; after many without effect, in order, to tell "nothing" from bad luck.
  for (int tries = 0; tries < 64 && !busy_.empty(); ++tries) {
    const size_t at = random_.Below(busy_.size());
    Link& link = links_[busy_[at]];
    if (!HasWork(link)) {
      listed_[busy_[at]] = false;
      busy_[at] = busy_.back();
      busy_.pop_back();
      continue;
    }
    if (frozen_[link.from] && link.in_flight.empty()) continue;
    if (frozen_[link.to] && link.queued.empty()) continue;
    if (!random_.OneIn(std::max(slow_[link.from], slow_[link.to]))) continue;
    const bool can_depart = !link.queued.empty() && !frozen_[link.from];
    const bool can_arrive = !link.in_flight.empty() && !frozen_[link.to];
    if (can_arrive && (!can_depart || random_.OneIn(2))) {
      link.begun ? Finish(link) : Begin(link);
    } else if (can_depart) {
      Depart(link);
    } else {
      continue;
    }
    return true;
  }
  for (Link& link : links_) {
    if (!HasWork(link)) continue;
    if (!link.in_flight.empty() && !frozen_[link.to]) {
      link.begun ? Finish(link) : Begin(link);
      return true;
    }
    if (!link.queued.empty() && !frozen_[link.from]) {
      Depart(link);
      return true;
    }
  }
  return false;
}

void Network::Depart(Link& link) {
  Frame frame = std::move(link.queued.front());
  link.queued.pop_front();
  if (!frame.owned) {
    if (Hash(frame.payload) != frame.hash && violation_.empty()) {
      violation_ = fmt::format("{} {}→{} chunk {} of operation {} changed before it was sent",
                               Name(frame.header.type), link.from, link.to, frame.header.chunk,
                               frame.header.sequence);
    }
    frame.bytes.assign(reinterpret_cast<const char*>(frame.payload.data()), frame.payload.size());
    frame.payload = {};
  }
  link.in_flight.push_back(std::move(frame));
}

void Network::Begin(Link& link) {
  const Frame& frame = link.in_flight.front();
  link.begun = true;
  link.place = nullptr;
  link.in_place = 0;
  if (!IsData(frame.header.type) || frame.bytes.empty()) return Finish(link);
  std::byte* const place = nodes_[link.to]->Place(link.from, frame.header);
  // The answer may have been to close this very connection.
  if (link.closed || link.in_flight.empty() || !link.begun) return;
  if (place == nullptr) {
    link.begun = false;
    link.in_flight.pop_front();
    return;
  }
  link.place = place;
  if (random_.OneIn(2)) return Finish(link);
  const auto elements = frame.bytes.size() / SizeOf(frame.header.dtype);
  link.in_place = static_cast<uint32_t>(random_.Below(elements) * SizeOf(frame.header.dtype));
  std::memcpy(link.place, frame.bytes.data(), link.in_place);
}

void Network::Finish(Link& link) {
  const Frame frame = std::move(link.in_flight.front());
  link.in_flight.pop_front();
  link.begun = false;
  ++frames_;
  const bool placed = link.place != nullptr && !frame.bytes.empty();
  if (placed) std::memcpy(link.place, frame.bytes.data(), frame.bytes.size());
  const std::byte* const bytes =
      placed ? link.place : reinterpret_cast<const std::byte*>(frame.bytes.data());
  link.place = nullptr;
  if (trace) {
    trace(fmt::format("{} {}→{} epoch {:x} chunk {} of operation {}, {} bytes at {}",
                      Name(frame.header.type), link.from, link.to, frame.header.epoch,
                      frame.header.chunk, frame.header.sequence, frame.bytes.size(),
                      frame.header.offset));
  }
  nodes_[link.to]->Arrived(link.from, frame.header, {bytes, frame.bytes.size()});
}

Unfinished Network::Close(uint16_t self, uint16_t peer) {
  LinkOf(self, peer).closed = true;
  LinkOf(self, peer).queued.clear();
  Link& link = LinkOf(peer, self);
  Unfinished unfinished;
  if (link.begun && link.place != nullptr &&
      link.in_flight.front().header.type == FrameType::kResult) {
    unfinished = {link.in_flight.front().header, link.in_place};
  }
  link.closed = true;
  link.begun = false;
  link.place = nullptr;
  link.in_flight.clear();
  link.queued.clear();
  return unfinished;
}

void Network::DropQueued(uint16_t self) {
  for (uint16_t peer = 0; peer < Nodes(); ++peer) {
    std::erase_if(LinkOf(self, peer).queued, [](const Frame& frame) { return !frame.owned; });
    Link& link = LinkOf(peer, self);
    if (link.begun && link.place != nullptr) {
      link.begun = false;
      link.place = nullptr;
      link.in_flight.pop_front();
    }
  }
}

void Network::Kill(uint16_t id, bool cut) {
  for (uint16_t peer = 0; peer < Nodes(); ++peer) {
    Link& out = LinkOf(id, peer);
    out.queued.clear();
    if (!out.in_flight.empty()) {
      // What was begun stays begun: its beginning has been read.
      const size_t least = out.begun ? 1 : 0;
      const size_t keep = cut ? least : random_.From(least, out.in_flight.size());
      out.stalled = cut;
      out.in_flight.resize(keep);
    }
    Link& in = LinkOf(peer, id);
    in.closed = true;
    in.queued.clear();
    in.in_flight.clear();
    in.begun = false;
  }
}

}  // namespace muster::collective::sim
