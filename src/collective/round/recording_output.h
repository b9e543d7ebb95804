// Keeps what a machine under test sends and says.
#pragma once

#include <string>
#include <vector>

#include "collective/round/output.h"

namespace muster::collective {

struct Sent {
  uint16_t peer = 0;
  FrameHeader header;
  std::string bytes;
};

class RecordingOutput : public WorkerOutput {
 public:
  void Send(uint16_t peer, const FrameHeader& header, std::span<const std::byte> payload) override {
    sent.push_back(
        {peer, header, std::string(reinterpret_cast<const char*>(payload.data()), payload.size())});
  }
  void SendMessage(uint16_t peer, const FrameHeader& header, std::string body) override {
    sent.push_back({peer, header, std::move(body)});
    sent.back().header.length = static_cast<uint32_t>(sent.back().bytes.size());
  }
  Unfinished Close(uint16_t peer) override {
    closed.push_back(peer);
    return {};
  }
  void DropQueued() override { dropped = true; }
  void Done(uint64_t sequence, const Status& status) override {
    done.emplace_back(sequence, status);
  }

  // Of that type, since the last time.
  std::vector<Sent> Take(FrameType type) {
    std::vector<Sent> taken;
    std::erase_if(sent, [&](const Sent& frame) {
      if (frame.header.type != type) return false;
      taken.push_back(frame);
      return true;
    });
    return taken;
  }

  std::vector<Sent> sent;
  std::vector<uint16_t> closed;
  std::vector<std::pair<uint64_t, Status>> done;
  bool dropped = false;
};

}  // namespace muster::collective
