#include "collective/round/coordinator.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace muster::collective {

RecoveryCoordinator::RecoveryCoordinator(uint32_t epoch, const Plan& plan, Replan replan)
    : epoch_(epoch), plan_(plan), replan_(std::move(replan)), lost_(plan.endpoints.size()) {}

void RecoveryCoordinator::Lost(uint16_t endpoint) {
  MUSTER_CHECK(endpoint >= plan_.workers && endpoint < lost_.size());
  if (lost_[endpoint]) return;
  lost_[endpoint] = true;
  queue_.push_back(endpoint);
}

std::optional<RecoveryCoordinator::Fence> RecoveryCoordinator::TakeFence() {
  if (now_ || queue_.empty()) return std::nullopt;
  now_ = queue_.front();
  queue_.pop_front();
  prefixes_.assign(plan_.workers, std::nullopt);
  missing_ = plan_.workers;
  return Fence{epoch_ + 1, {*now_}};
}

Status RecoveryCoordinator::Prefix(uint16_t rank, uint32_t epoch, PrefixMessage message) {
  if (!now_ || epoch != epoch_ + 1 || rank >= prefixes_.size() || prefixes_[rank]) {
    return Fail(Code::kFailedPrecondition, "rank {} reports to epoch {}, unasked", rank, epoch);
  }
  for (const auto& other : prefixes_) {
    if (!other) continue;
    if (!std::ranges::equal(other->streams, message.streams, {}, &StreamProgress::epoch,
                            &StreamProgress::epoch)) {
      return Fail(Code::kFailedPrecondition, "rank {} knows other streams than a rank before",
                  rank);
    }
    break;
  }
  prefixes_[rank] = std::move(message);
  --missing_;
  return {};
}

std::optional<RecoveryCoordinator::Recovery> RecoveryCoordinator::TakeRecovery() {
  if (!now_ || missing_ > 0) return std::nullopt;
  Recovery recovery{++epoch_, {}};
  RecoverMessage& message = recovery.message;
  message.endpoint = *now_;
  for (size_t s = 0; s < prefixes_[0]->streams.size(); ++s) {
    StreamRecovery stream;
    stream.epoch = prefixes_[0]->streams[s].epoch;
    for (uint16_t rank = 0; rank < static_cast<uint16_t>(plan_.workers); ++rank) {
      stream.progress.push_back(prefixes_[rank]->streams[s].progress);
      if (stream.progress[rank] > stream.progress[stream.holder]) stream.holder = rank;
    }
    message.streams.push_back(std::move(stream));
  }
  for (const auto& prefix : prefixes_) message.started = std::max(message.started, prefix->started);
  Plan next = replan_(plan_, *now_);
  MUSTER_CHECK(CheckPlan(next) && next.workers == plan_.workers &&
               next.reducers == plan_.reducers && next.endpoints[*now_].share == 0);
  plan_ = next;
  message.plan = std::move(next);
  now_.reset();
  return recovery;
}

}  // namespace muster::collective
