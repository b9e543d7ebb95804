// Nothing that a peer sends after its handshake may crash a worker or a reducer, whatever it
// claims. The input is frames; the first byte says who listens, a frame's sender is its rank. A
// broken rule ends an epoch: then a new one begins, so that long inputs reach far.
#include <cstring>
#include <memory>
#include <vector>

#include "collective/round/worker.h"
#include "collective/wire/decoder.h"

namespace muster::collective {
namespace {

constexpr uint32_t kEpoch = 0x10000;

class Silent : public WorkerOutput {
 public:
  void Send(uint16_t, const FrameHeader&, std::span<const std::byte>) override {}
  void SendMessage(uint16_t, const FrameHeader&, std::string) override {}
  Unfinished Close(uint16_t) override { return {}; }
  void DropQueued() override {}
  void Done(uint64_t, const Status&) override {}
};

Plan SmallPlan() {
  Plan plan{.workers = 3, .reducers = 2, .endpoints = {}, .exchange = {4096, 2}};
  plan.endpoints.assign(5, {kShareOne / 8, {4096, 2}});
  plan.endpoints[3].share = kShareOne / 2;
  plan.whole_bytes = 64;
  return plan;
}

class Listener : public FrameSink {
 public:
  explicit Listener(uint8_t who) : id_(who % 4) { Begin(); }

  std::byte* Place(const FrameHeader& header) override {
    if (header.rank >= 5 || header.rank == id_) return nullptr;
    return worker_ ? worker_->Place(header.rank, header) : reducer_->Place(header.rank, header);
  }
  void Arrived(const FrameHeader& header, std::span<const std::byte> payload) override {
    if (header.rank >= 5 || header.rank == id_) return;
    if (worker_) {
      worker_->Arrived(header.rank, header, payload, {});
      // The place of the next payload is safe only while the buffers live: they do, to the end.
      if (worker_->over()) Begin();
    } else {
      reducer_->Arrived(header.rank, header, payload, {});
      if (reducer_->over()) Begin();
    }
  }

 private:
  void Begin() {
    worker_.reset();
    reducer_.reset();
    if (id_ == 3) {
      reducer_ = std::make_unique<EndpointRound>(EndpointConfig{.id = id_, .workers = 3}, output_);
      return;
    }
    worker_ = std::make_unique<WorkerRound>(
        WorkerConfig{.epoch = kEpoch, .rank = id_, .plan = SmallPlan(), .divisor = 3}, output_);
    worker_->Open();
    buffers_.assign(3, std::vector<std::byte>(48'000));
    const auto start = [&](Collective kind, std::vector<std::byte>& buffer, uint64_t bytes) {
      (void)worker_->Start({.kind = kind,
                            .root = kind == Collective::kBroadcast ? uint16_t{1} : kNoRank,
                            .input = buffer.data(),
                            .output = buffer.data(),
                            .bytes = bytes},
                           {});
    };
    start(Collective::kAllReduce, buffers_[0], 48'000);
    start(Collective::kBroadcast, buffers_[1], 40);
    start(Collective::kAllGather, buffers_[2], 24'000);
  }

  const uint8_t id_;
  Silent output_;
  std::unique_ptr<WorkerRound> worker_;
  std::unique_ptr<EndpointRound> reducer_;
  std::vector<std::vector<std::byte>> buffers_;
};

}  // namespace
}  // namespace muster::collective

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::collective;
  if (size == 0) return 0;
  Listener listener(data[0]);
  FrameDecoder decoder(listener);
  decoder.AllowOnlyHandshake(false);
  (void)decoder.Feed(std::as_bytes(std::span(data + 1, size - 1)));
  return 0;
}
