// Connections between all nodes, in one direction each: what a transport with zero-copy sends and
// reads straight into the users' buffers may do, in any order that its promises allow.
//
//   queued ──depart──▶ in flight ──begin──▶ partly in place ──finish──▶ arrived
//
// A payload is read only when its frame departs, which may be long after Send(): a machine that
// lets a buffer change in between is found out. Frames of one connection stay in order.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "collective/round/output.h"
#include "collective/sim/random.h"

namespace muster::collective::sim {

// Where frames go in.
class Node {
 public:
  virtual ~Node() = default;
  virtual std::byte* Place(uint16_t from, const FrameHeader& header) = 0;
  virtual void Arrived(uint16_t from, const FrameHeader& header,
                       std::span<const std::byte> payload) = 0;
};

class Network {
 public:
  Network(size_t nodes, Random& random);

  void Attach(uint16_t id, Node* node) { nodes_[id] = node; }

  void Send(uint16_t from, uint16_t to, const FrameHeader& header,
            std::span<const std::byte> payload);
  void SendMessage(uint16_t from, uint16_t to, const FrameHeader& header, std::string body);

  // One thing happens somewhere; false if nothing can.
  bool Step();

  // `self` gives up `peer`: see WorkerOutput::Close().
  Unfinished Close(uint16_t self, uint16_t peer);
  void DropQueued(uint16_t self);

  // The node is gone: what has not departed is lost, of what is in flight a part; or, if cut, all
  // of it, so that frames that were being read stay unfinished.
  void Kill(uint16_t id, bool cut);
  // Nothing goes in or out until it is thawed.
  void Freeze(uint16_t id, bool frozen) { frozen_[id] = frozen; }
  // Things on these connections happen that many times more seldom.
  void Slow(uint16_t id, uint64_t times) { slow_[id] = times; }

  // Set when a payload was changed between Send() and its departure.
  const std::string& violation() const { return violation_; }
  uint64_t frames() const { return frames_; }
  std::function<void(const std::string&)> trace;

 private:
  struct Frame {
    FrameHeader header;
    std::span<const std::byte> payload;  // of the sender, until it departs
    uint64_t hash = 0;
    bool owned = false;
    std::string bytes;  // owned, or taken at departure
  };
  struct Link {
    uint16_t from = 0;
    uint16_t to = 0;
    bool closed = false;
    std::deque<Frame> queued;
    std::deque<Frame> in_flight;
    std::byte* place = nullptr;  // of in_flight.front()
    bool begun = false;
    bool stalled = false;  // the rest of what was begun never comes
    uint32_t in_place = 0;
  };

  Link& LinkOf(uint16_t from, uint16_t to) { return links_[from * nodes_.size() + to]; }
  void Queue(uint16_t from, uint16_t to, Frame frame);
  void Depart(Link& link);
  void Begin(Link& link);
  void Finish(Link& link);
  bool HasWork(const Link& link) const;

  uint16_t Nodes() const { return static_cast<uint16_t>(nodes_.size()); }

  Random& random_;
  std::vector<Node*> nodes_;
  std::vector<Link> links_;
  std::vector<bool> frozen_;
  std::vector<uint64_t> slow_;
  std::vector<uint32_t> busy_;  // links that may have work
  std::vector<bool> listed_;    // which are in busy_
  std::string violation_;
  uint64_t frames_ = 0;
};

}  // namespace muster::collective::sim
