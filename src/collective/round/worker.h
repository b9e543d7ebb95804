// The worker's side: cuts operations into chunks by the plan, contributes them within the credit
// window, writes results where the user wants them, and goes on when a reducer is lost.
//
// A stream is what goes between this worker and one endpoint in one epoch: chunks in the order of
// operations, the same at every worker. Credit: a contribution may run at most W chunks ahead of
// the results received, W from the plan. That bounds memory everywhere, keeps all ranks of a stream
// within a window of each other, and makes the speed independent of TCP's congestion control.
//
// Loss of a reducer (a worker's loss ends the epoch). Operations may be in place, so a result that
// has arrived has overwritten this worker's contribution. But results come in order: every worker i
// has a prefix r_i of the lost stream. Everything before R = max r_i is final at some worker, which
// passes it to those who lack it; what is behind R has been overwritten nowhere, and is contributed
// again to the endpoints of a new plan, in streams of a new epoch:
//
//     running ──FENCE──▶ fenced: the lost streams stand still, new operations wait
//                        PREFIX {last operation begun, r_i of each lost stream} ──▶ rank 0
//     fenced ──RECOVER──▶ running: PASS what others lack, contribute the rest anew
//
// r_i are exact to the element (Progress). Who lacks chunk c < R has at least R − W, so the holder
// keeps the last W results of every reducer's stream after their operation has ended (the tail);
// that is the only copy recovery costs in normal running, at most a window for each operation.
// The order in the new streams is derived from numbers that all workers share (see
// worker_recovery.cc), never from when things happened.
//
// Thread rule: one thread at a time. Output may be called from within every method.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "collective/plan/layout.h"
#include "collective/round/coordinator.h"
#include "collective/round/endpoint.h"
#include "collective/round/output.h"

namespace muster::collective {

struct WorkerConfig {
  uint64_t job = 0;
  uint32_t group = 0;
  uint32_t epoch = 0;  // the low 16 bits count losses of reducers; begin with them 0
  uint16_t rank = 0;   // among the plan's workers
  Plan plan;
  uint32_t divisor = 1;  // for averages: all ranks, also those that others speak for
  bool checked = false;  // frames carry checksums
  uint64_t memory_bytes_max = uint64_t{1} << 30;  // of this worker's endpoint
  RecoveryCoordinator::Replan replan = WithoutReducer;
};

struct Operation {
  Collective kind = Collective::kAllReduce;
  DataType dtype = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  uint16_t root = kNoRank;  // of a broadcast
  // All-reduce, broadcast: `bytes` each, may be the same. Reduce-scatter: input `bytes`, output
  // this rank's n-th part of them. All-gather: input that part, output `bytes`; the input may lie
  // at its place in the output. Both stay untouched by others until Done().
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  uint64_t bytes = 0;
};

class WorkerRound {
 public:
  WorkerRound(const WorkerConfig& config, WorkerOutput& output);
  WorkerRound(const WorkerRound&) = delete;
  WorkerRound& operator=(const WorkerRound&) = delete;

  // Tells the endpoints the plan; before anything else.
  void Open();

  // Begins an operation and returns its sequence number, one more than the last; all ranks must
  // begin the same ones in the same order. Fails at once on a malformed operation (others are then
  // left waiting: Abort() unless they all fail) and when the epoch is over.
  Result<uint64_t> Start(const Operation& operation, Instant now);

  // As FrameSink, for frames of `from`; never fails: a peer that breaks the rules is lost.
  std::byte* Place(uint16_t from, const FrameHeader& header);
  void Arrived(uint16_t from, const FrameHeader& header, std::span<const std::byte> payload,
               Instant now);

  // The connection failed, or liveness.h says so.
  void PeerLost(uint16_t peer, const std::string& reason, Instant now);

  // The user gives up, or this rank has run into an error that others should know.
  void Abort(Code code, const std::string& reason);

  // Set once the epoch is over: what every operation fails with. Names the rank to blame.
  const std::optional<Error>& over() const { return over_; }
  uint32_t epoch() const { return epochs_.back().epoch; }
  const Plan& plan() const { return epochs_.back().plan; }
  const EndpointRound& endpoint() const { return endpoint_; }
  size_t operations() const { return active_.size() + held_.size(); }

 private:
  // A run of bytes of one operation in one stream.
  struct Piece {
    uint64_t sequence = 0;
    uint64_t offset = 0;
    uint64_t length = 0;
    uint64_t first = 0;  // chunk in the stream
    uint64_t chunks = 0;
    FrameHeader header;    // what its chunks have in common
    bool in_tail = false;  // the operation is done; results are in the stream's tail
  };
  // Invariants: received ≤ sent ≤ min(end, received + window); pieces cover [received, end) and,
  // for a reducer's stream, the window before.
  struct Stream {
    uint16_t endpoint = 0;
    uint32_t epoch = 0;
    bool exchange = false;
    Lane lane;
    uint64_t sent = 0;
    uint64_t received = 0;
    uint64_t end = 0;
    std::deque<Piece> pieces;
    std::unique_ptr<std::byte[]> tail;  // by chunk % window
    bool lost = false;                  // fenced or cut: nothing is sent, results are dropped
    bool recovered = false;             // what others lacked has been passed on
    uint32_t partial = 0;               // bytes of chunk `received` in place when it was lost
    bool partial_passed = false;        // the final part of chunk `end` came before RECOVER
    bool partial_awaited = false;       // it is to come
  };
  struct Active {
    Operation operation;
    uint64_t left = 0;  // results and passes still to come
  };
  struct Epoch {
    uint32_t epoch = 0;
    uint64_t after = 0;  // operations after this one follow the plan
    Plan plan;
    std::optional<uint16_t> lost;  // the reducer whose loss began it
  };
  // A slice on its way to a stream.
  struct Assigned {
    size_t epoch = 0;  // index in epochs_
    Slice slice;
  };
  // What this worker's endpoint sends goes out, or into local_ if it is for this worker.
  class Port : public FrameOutput {
   public:
    explicit Port(WorkerRound& round) : round_(round) {}
    void Send(uint16_t peer, const FrameHeader& header,
              std::span<const std::byte> payload) override;
    void SendMessage(uint16_t peer, const FrameHeader& header, std::string body) override;

   private:
    WorkerRound& round_;
  };
  struct LocalResult {
    FrameHeader header;
    std::span<const std::byte> payload;
  };

  // worker.cc
  Status Check(const Operation& operation) const;
  void Begin(const Operation& operation, uint64_t sequence);
  void CopyOwn(const Operation& operation) const;
  void Append(const Assigned& assigned, uint64_t sequence, Active& active);
  Stream& StreamFor(uint16_t endpoint, uint32_t epoch, bool exchange);
  Stream* FindStream(uint16_t endpoint, uint32_t epoch, bool exchange);
  Piece& PieceOf(Stream& stream, uint64_t chunk);
  FrameHeader ChunkHeader(const Stream& stream, const Piece& piece, uint64_t chunk) const;
  void PumpAll();
  void Pump(Stream& stream);
  std::byte* ResultPlace(const FrameHeader& header);
  Stream* ExpectedResult(uint16_t from, const FrameHeader& header);
  void ResultArrived(Stream& stream);
  void Trim(Stream& stream);
  void Credit(uint64_t sequence);
  void KeepTail(uint64_t sequence, const Operation& operation);
  void Settle();
  void End(Code code, uint16_t rank, const std::string& reason, bool tell);
  void LosePeer(uint16_t peer, const std::string& reason);
  void OnControl(uint16_t from, const FrameHeader& header, std::span<const std::byte> body);
  void OnRecoveryControl(uint16_t from, const FrameHeader& header, std::span<const std::byte> body);
  FrameHeader Control(FrameType type) const;
  void SendToWorkers(FrameType type, uint32_t epoch, const std::string& body);
  uint16_t Peers() const { return static_cast<uint16_t>(closed_.size()); }
  bool IsReducer(uint16_t peer) const { return peer >= workers_; }

  // worker_recovery.cc
  void AnnouncePlan();
  void ReducerLost(uint16_t endpoint, const std::string& reason);
  void CloseReducer(uint16_t endpoint);
  void Coordinate();
  void OnFence(uint32_t epoch, const FenceMessage& fence);
  void OnRecover(uint32_t epoch, const RecoverMessage& recover);
  Status CheckRecover(uint32_t epoch, const RecoverMessage& recover);
  void PassOn(Stream& stream, const StreamRecovery& recovery);
  void MoveRest(const RecoverMessage& recover);
  std::vector<Assigned> Assign(const Operation& operation, uint64_t sequence) const;
  Stream* ExpectedPass(uint16_t from, const FrameHeader& header);
  void PassArrived(Stream& stream, const FrameHeader& header);

  const WorkerConfig config_;
  const uint16_t workers_;
  WorkerOutput& output_;
  Port port_;
  EndpointRound endpoint_;
  std::optional<Error> over_;
  Instant now_;  // of the call under way

  std::vector<Epoch> epochs_;  // oldest first
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<bool> closed_;  // peers given up or gone
  std::vector<bool> left_;    // peers that said goodbye

  uint64_t begun_ = 0;  // the last operation that has streams
  std::map<uint64_t, Active> active_;
  bool fenced_ = false;
  std::deque<Operation> held_;                      // begun_ + 1 and on, while fenced
  std::vector<LocalResult> local_;                  // results of the own endpoint, to be taken in
  std::optional<RecoveryCoordinator> coordinator_;  // at rank 0
};

}  // namespace muster::collective
