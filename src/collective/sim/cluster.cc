#include "collective/sim/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "collective/round/worker.h"
#include "collective/sim/network.h"
#include "collective/sim/program.h"

namespace muster::collective::sim {
namespace {

constexpr uint32_t kEpoch = 0x10000;
constexpr uint64_t kStepsMax = 400'000;

Plan MakeRandomPlan(Random& random) {
  Plan plan;
  plan.workers = static_cast<uint32_t>(random.OneIn(12) ? 1 : random.From(2, 6));
  plan.reducers = static_cast<uint32_t>(random.Below(5));
  plan.endpoints.resize(plan.workers + plan.reducers);
  const auto lane = [&] {
    return Lane{kChunkBytesMin * static_cast<uint32_t>(random.From(1, 2)),
                static_cast<uint32_t>(random.From(2, 5))};
  };
  // Reducers alone, workers alone, or both with any weights.
  const uint64_t who = random.Below(3);
  std::vector<uint64_t> weights;
  for (uint32_t e = 0; e < plan.endpoints.size(); ++e) {
    const bool in = e < plan.workers ? who != 0 || plan.reducers == 0 : who != 1;
    weights.push_back(in && !random.OneIn(6) ? random.From(1, 20) : 0);
    plan.endpoints[e].lane = lane();
  }
  if (std::ranges::all_of(weights, [](uint64_t w) { return w == 0; })) weights[0] = 1;
  uint64_t sum = 0;
  for (const uint64_t weight : weights) sum += weight;
  uint32_t given = 0;
  for (uint32_t e = 0; e < weights.size(); ++e) {
    plan.endpoints[e].share = static_cast<uint32_t>(weights[e] * kShareOne / sum);
    given += plan.endpoints[e].share;
  }
  std::ranges::max_element(plan.endpoints, {}, &Endpoint::share)->share += kShareOne - given;
  plan.exchange = lane();
  plan.whole_bytes = static_cast<uint32_t>(random.Below(10'000));
  return plan;
}

class Cluster;

class WorkerNode : public Node, public WorkerOutput {
 public:
  WorkerNode(Cluster& cluster, const WorkerConfig& config);

  // Node
  std::byte* Place(uint16_t from, const FrameHeader& header) override {
    return round.Place(from, header);
  }
  void Arrived(uint16_t from, const FrameHeader& header,
               std::span<const std::byte> payload) override;
  // WorkerOutput
  void Send(uint16_t peer, const FrameHeader& header, std::span<const std::byte> payload) override;
  void SendMessage(uint16_t peer, const FrameHeader& header, std::string body) override;
  Unfinished Close(uint16_t peer) override;
  void DropQueued() override;
  void Done(uint64_t sequence, const Status& status) override;

  void StartNext();

  struct Running {
    Bytes input;
    Bytes output;
    bool done = false;
  };

  Cluster& cluster;
  const uint16_t rank;
  WorkerRound round;
  bool alive = true;
  uint64_t begun = 0;
  uint64_t finished = 0;                          // successfully
  std::vector<std::unique_ptr<Running>> running;  // by step
};

class ReducerNode : public Node, public FrameOutput {
 public:
  ReducerNode(Cluster& cluster, const EndpointConfig& config);

  std::byte* Place(uint16_t from, const FrameHeader& header) override {
    return round.Place(from, header);
  }
  void Arrived(uint16_t from, const FrameHeader& header,
               std::span<const std::byte> payload) override;
  void Send(uint16_t peer, const FrameHeader& header, std::span<const std::byte> payload) override;
  void SendMessage(uint16_t peer, const FrameHeader& header, std::string body) override;

  Cluster& cluster;
  const uint16_t id;
  EndpointRound round;
  bool lost = false;
};

class Cluster {
 public:
  Cluster(uint64_t seed, bool trace);

  Outcome Run();

  // A worker is told of a peer's death some steps later.
  struct Notice {
    uint64_t step = 0;
    uint16_t to = 0;
    uint16_t peer = 0;
  };

  Random random;
  Plan plan;
  Network network;
  Outcome outcome;
  std::vector<Step> program;
  std::vector<std::unique_ptr<WorkerNode>> workers;
  std::vector<std::unique_ptr<ReducerNode>> reducers;
  std::vector<Notice> notices;
  uint64_t step = 0;
  uint64_t depth = 1;          // operations under way at a time
  uint16_t culprit = kNoRank;  // who dies, disagrees or gives up
  bool struck = false;         // it has
  bool tracing = false;

  Instant Now() const { return Instant(std::chrono::microseconds(1000 + step)); }
  bool FailRun(const std::string& why) {
    if (outcome.failure.empty()) outcome.failure = fmt::format("step {}: {}", step, why);
    return false;
  }
  void Trace(const std::string& text) const {
    if (tracing) std::fprintf(stderr, "%6lu %s\n", static_cast<unsigned long>(step), text.c_str());
  }

 private:
  void PlanTrouble();
  void Strike();
  void LoseReducer(ReducerNode& reducer);
  void LoseWorker(uint16_t rank);
  void GiveNotices(bool all);
  bool MayStart(const WorkerNode& worker) const;
  bool Finished() const;
  void CheckEnd();
  bool OneStep();

  std::vector<uint64_t> strikes_;  // steps at which something goes wrong, soonest last
};

// ---- Nodes ----

WorkerNode::WorkerNode(Cluster& owner, const WorkerConfig& config)
    : cluster(owner), rank(config.rank), round(config, *this) {}

void WorkerNode::Arrived(uint16_t from, const FrameHeader& header,
                         std::span<const std::byte> payload) {
  round.Arrived(from, header, payload, cluster.Now());
}

void WorkerNode::Send(uint16_t peer, const FrameHeader& header,
                      std::span<const std::byte> payload) {
  cluster.network.Send(rank, peer, header, payload);
}

void WorkerNode::SendMessage(uint16_t peer, const FrameHeader& header, std::string body) {
  cluster.network.SendMessage(rank, peer, header, std::move(body));
}

Unfinished WorkerNode::Close(uint16_t peer) {
  const Unfinished unfinished = cluster.network.Close(rank, peer);
  cluster.Trace(fmt::format("rank {} closes {}, {} bytes under way", rank, peer, unfinished.bytes));
  return unfinished;
}

void WorkerNode::DropQueued() { cluster.network.DropQueued(rank); }

void WorkerNode::StartNext() {
  const Step& step = cluster.program[begun];
  auto run = std::make_unique<Running>();
  run->input = step.inputs[rank];
  Operation operation = step.operation;
  operation.input = run->input.data();
  if (step.in_place) {
    // An all-gather's input lies at its place in the output.
    if (operation.kind == Collective::kAllGather) {
      run->output.resize(operation.bytes, std::byte{0x11});
      std::byte* const place = run->output.data() + rank * run->input.size();
      std::copy(run->input.begin(), run->input.end(), place);
      operation.input = place;
    } else {
      run->output = run->input;
      operation.input = run->output.data();
    }
  } else {
    run->output.resize(step.outputs[rank].size(), std::byte{0x11});
  }
  operation.output = run->output.data();
  if (cluster.outcome.trouble == Trouble::kDisagreement && rank == cluster.culprit &&
      begun + 1 == cluster.program.size()) {
    cluster.struck = true;
    operation.op = operation.op == ReduceOp::kSum ? ReduceOp::kMax : ReduceOp::kSum;
  }
  running.push_back(std::move(run));
  ++begun;
  cluster.Trace(fmt::format("rank {} begins {}: {} of {} bytes", rank, begun, Name(operation.kind),
                            operation.bytes));
  const auto sequence = round.Start(operation, cluster.Now());
  if (sequence ? *sequence != begun : !round.over()) {
    cluster.FailRun(fmt::format("rank {}: operation {} was not begun", rank, begun));
  }
}

void WorkerNode::Done(uint64_t sequence, const Status& status) {
  if (sequence == 0 || sequence > running.size() || running[sequence - 1]->done) {
    cluster.FailRun(fmt::format("rank {}: operation {} is done, unasked", rank, sequence));
    return;
  }
  Running& run = *running[sequence - 1];
  run.done = true;
  const Step& step = cluster.program[sequence - 1];
  cluster.Trace(fmt::format("rank {} is done with {}: {}", rank, sequence,
                            status ? "ok" : status.error().message));
  if (status) {
    ++finished;
    if (run.output != step.outputs[rank]) {
      cluster.FailRun(fmt::format("rank {}: operation {} ({} of {} bytes) has a wrong result", rank,
                                  sequence, Name(step.operation.kind), step.operation.bytes));
    }
    if (!step.in_place && run.input != step.inputs[rank]) {
      cluster.FailRun(fmt::format("rank {}: operation {} has changed its input", rank, sequence));
    }
  }
  // The buffers are the user's again.
  std::ranges::fill(run.input, std::byte{0xEE});
  std::ranges::fill(run.output, std::byte{0xEE});
}

ReducerNode::ReducerNode(Cluster& owner, const EndpointConfig& config)
    : cluster(owner), id(config.id), round(config, *this) {}

void ReducerNode::Arrived(uint16_t from, const FrameHeader& header,
                          std::span<const std::byte> payload) {
  round.Arrived(from, header, payload, cluster.Now());
}

void ReducerNode::Send(uint16_t peer, const FrameHeader& header,
                       std::span<const std::byte> payload) {
  cluster.network.Send(id, peer, header, payload);
}

void ReducerNode::SendMessage(uint16_t peer, const FrameHeader& header, std::string body) {
  cluster.network.SendMessage(id, peer, header, std::move(body));
}

// ---- The run ----

Cluster::Cluster(uint64_t seed, bool trace)
    : random(seed),
      plan(MakeRandomPlan(random)),
      network(plan.endpoints.size(), random),
      tracing(trace) {
  if (trace) network.trace = [this](const std::string& text) { Trace(text); };
  const auto divisor = static_cast<uint32_t>(plan.workers + random.Below(2));
  const bool checked = random.OneIn(8);
  for (uint16_t rank = 0; rank < static_cast<uint16_t>(plan.workers); ++rank) {
    workers.push_back(std::make_unique<WorkerNode>(*this, WorkerConfig{.job = 7,
                                                                       .group = 1,
                                                                       .epoch = kEpoch,
                                                                       .rank = rank,
                                                                       .plan = plan,
                                                                       .divisor = divisor,
                                                                       .checked = checked}));
    network.Attach(rank, workers.back().get());
  }
  for (uint32_t j = 0; j < plan.reducers; ++j) {
    const auto id = static_cast<uint16_t>(plan.workers + j);
    reducers.push_back(std::make_unique<ReducerNode>(
        *this, EndpointConfig{.job = 7,
                              .group = 1,
                              .id = id,
                              .workers = static_cast<uint16_t>(plan.workers),
                              .divisor = divisor,
                              .checked = checked}));
    network.Attach(id, reducers.back().get());
  }
  const uint64_t steps = random.From(1, 6);
  for (uint64_t i = 0; i < steps; ++i) {
    program.push_back(MakeStep(random, static_cast<uint16_t>(plan.workers), divisor));
  }
  depth = random.From(1, 4);
  for (uint16_t id = 0; id < static_cast<uint16_t>(plan.endpoints.size()); ++id) {
    if (random.OneIn(5)) network.Slow(id, random.From(2, 20));
  }
  PlanTrouble();
}

void Cluster::PlanTrouble() {
  static constexpr Trouble kTroubles[] = {
      Trouble::kNone,   Trouble::kReducers,     Trouble::kReducers, Trouble::kReducers,
      Trouble::kWorker, Trouble::kDisagreement, Trouble::kAbort};
  outcome.trouble = kTroubles[random.Below(std::size(kTroubles))];
  if (plan.workers == 1) outcome.trouble = Trouble::kNone;
  if (outcome.trouble == Trouble::kDisagreement) {
    const Collective kind = program.back().operation.kind;
    if (kind != Collective::kAllReduce && kind != Collective::kReduceScatter) {
      outcome.trouble = Trouble::kNone;
    }
  }
  culprit = static_cast<uint16_t>(random.Below(plan.workers));
  uint64_t frames = 0;  // about as many as there will be
  for (const Step& s : program) {
    frames += (s.operation.bytes / kChunkBytesMin + 2) * plan.workers * 2;
  }
  uint64_t count = 1;
  if (outcome.trouble == Trouble::kReducers)
    count = plan.reducers == 0 ? 0 : random.From(1, plan.reducers);
  if (outcome.trouble == Trouble::kNone || outcome.trouble == Trouble::kDisagreement) count = 0;
  // Now and then several at about the same time.
  const uint64_t first = random.Below(frames * 3);
  for (uint64_t i = 0; i < count; ++i) {
    strikes_.push_back(random.OneIn(2) ? first + random.Below(20) : random.Below(frames * 3));
  }
  std::ranges::sort(strikes_, std::greater());
}

void Cluster::LoseReducer(ReducerNode& reducer) {
  reducer.lost = true;
  ++outcome.losses;
  const bool freeze = random.OneIn(3);
  Trace(fmt::format("reducer {} {}", reducer.id, freeze ? "freezes" : "dies"));
  if (freeze) {
    network.Freeze(reducer.id, true);
  } else {
    network.Kill(reducer.id, random.OneIn(2));
  }
  // Somebody notices; the others do or are told.
  bool anybody = false;
  for (const auto& worker : workers) {
    if (random.OneIn(3) && (anybody || worker != workers.back())) continue;
    anybody = true;
    notices.push_back({step + random.Below(300), worker->rank, reducer.id});
  }
}

void Cluster::LoseWorker(uint16_t rank) {
  Trace(fmt::format("rank {} dies", rank));
  workers[rank]->alive = false;
  network.Kill(rank, random.OneIn(2));
  for (uint16_t peer = 0; peer < static_cast<uint16_t>(plan.endpoints.size()); ++peer) {
    if (peer != rank) notices.push_back({step + random.Below(300), peer, rank});
  }
}

void Cluster::Strike() {
  struck = true;
  switch (outcome.trouble) {
    case Trouble::kReducers: {
      std::vector<ReducerNode*> left;
      for (const auto& reducer : reducers) {
        if (!reducer->lost) left.push_back(reducer.get());
      }
      return LoseReducer(*left[random.Below(left.size())]);
    }
    case Trouble::kWorker:
      return LoseWorker(culprit);
    case Trouble::kAbort:
      Trace(fmt::format("rank {} gives up", culprit));
      return workers[culprit]->round.Abort(Code::kCancelled, "it has had enough");
    default:
      return;
  }
}

void Cluster::GiveNotices(bool all) {
  for (size_t i = 0; i < notices.size();) {
    const Notice notice = notices[i];
    if (notice.step > step && !all) {
      ++i;
      continue;
    }
    notices.erase(notices.begin() + static_cast<ptrdiff_t>(i));
    if (notice.to >= plan.workers) {
      reducers[notice.to - plan.workers]->round.PeerLost(notice.peer, "connection reset");
    } else if (workers[notice.to]->alive) {
      Trace(fmt::format("rank {} notices the loss of {}", notice.to, notice.peer));
      workers[notice.to]->round.PeerLost(notice.peer, "connection reset", Now());
    }
    // A frozen reducer wakes up when everybody has given it up, and must do no harm.
    const bool last = std::ranges::none_of(
        notices, [&](const Notice& other) { return other.peer == notice.peer; });
    if (last && notice.peer >= plan.workers) network.Freeze(notice.peer, false);
  }
}

bool Cluster::MayStart(const WorkerNode& worker) const {
  return worker.alive && !worker.round.over() && worker.begun < program.size() &&
         worker.round.operations() < depth;
}

bool Cluster::Finished() const {
  return std::ranges::all_of(workers, [&](const auto& worker) {
    return !worker->alive || worker->round.over() ||
           (worker->begun == program.size() && worker->round.operations() == 0);
  });
}

// False when nothing more can happen.
bool Cluster::OneStep() {
  ++step;
  while (!strikes_.empty() && strikes_.back() <= step) {
    strikes_.pop_back();
    Strike();
  }
  GiveNotices(false);
  if (random.OneIn(8)) {
    WorkerNode& worker = *workers[random.Below(workers.size())];
    if (MayStart(worker)) worker.StartNext();
  }
  if (network.Step()) return true;
  if (!notices.empty()) {
    GiveNotices(true);
    return true;
  }
  for (const auto& worker : workers) {
    if (MayStart(*worker)) {
      worker->StartNext();
      return true;
    }
  }
  return false;
}

void Cluster::CheckEnd() {
  if (!network.violation().empty()) FailRun(network.violation());
  const bool fatal = outcome.trouble == Trouble::kWorker || outcome.trouble == Trouble::kAbort ||
                     outcome.trouble == Trouble::kDisagreement;
  const std::string named = fmt::format("rank {}", culprit);
  for (const auto& worker : workers) {
    const auto& over = worker->round.over();
    if (over && !(fatal && struck)) {
      FailRun(fmt::format("rank {} ended: {}", worker->rank, over->message));
    }
    if (fatal && struck && worker->alive) {
      if (!over) {
        FailRun(fmt::format("rank {} does not know what {} did", worker->rank, named));
      } else if (over->message.find(named) == std::string::npos) {
        FailRun(fmt::format("rank {} does not name {}: {}", worker->rank, named, over->message));
      }
    }
    for (size_t i = 0; i < worker->running.size(); ++i) {
      if (worker->alive && !worker->running[i]->done) {
        FailRun(fmt::format("rank {} is never done with operation {}", worker->rank, i + 1));
      }
    }
    if (!over && worker->alive)
      outcome.recoveries = std::max(outcome.recoveries, worker->round.epoch() - kEpoch);
    outcome.operations += static_cast<uint32_t>(worker->finished);
  }
}

Outcome Cluster::Run() {
  for (const auto& worker : workers) worker->round.Open();
  // On after the end as well: late frames and woken reducers must do no harm.
  bool going = true;
  while (going && outcome.failure.empty() && network.violation().empty()) {
    if (step > kStepsMax) {
      FailRun("too many steps");
      break;
    }
    if (Finished()) strikes_.clear();
    going = OneStep();
  }
  if (outcome.failure.empty()) CheckEnd();
  outcome.frames = network.frames();
  return outcome;
}

}  // namespace

Outcome Run(uint64_t seed, bool trace) { return Cluster(seed, trace).Run(); }

}  // namespace muster::collective::sim
