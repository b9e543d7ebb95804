// Rank 0's part in the loss of a reducer: stops all workers there, hears how far each of them got,
// and tells them how to go on. One loss at a time; others wait.
//
//     idle ──Lost──▶ fenced ──Prefix from every rank──▶ idle (or fenced for the next)
//
// Thread rule: one thread at a time.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "base/error.h"
#include "collective/plan/plan.h"
#include "collective/wire/messages.h"

namespace muster::collective {

class RecoveryCoordinator {
 public:
  // Makes the plan that follows the loss of a reducer; same workers and reducers, none of its
  // share.
  using Replan = std::function<Plan(const Plan& plan, uint32_t lost)>;

  RecoveryCoordinator(uint32_t epoch, const Plan& plan, Replan replan);

  struct Fence {
    uint32_t epoch = 0;  // that will begin
    FenceMessage message;
  };
  struct Recovery {
    uint32_t epoch = 0;
    RecoverMessage message;
  };

  // A reducer is lost; nothing the second time.
  void Lost(uint16_t endpoint);

  // A worker's answer to the fence. Fails if it makes no sense.
  Status Prefix(uint16_t rank, uint32_t epoch, PrefixMessage message);

  // What to send to every worker now, asked until there is nothing.
  std::optional<Fence> TakeFence();
  std::optional<Recovery> TakeRecovery();

 private:
  uint32_t epoch_;
  Plan plan_;
  const Replan replan_;
  std::vector<bool> lost_;                              // by endpoint
  std::deque<uint16_t> queue_;                          // lost, not yet fenced
  std::optional<uint16_t> now_;                         // fenced
  std::vector<std::optional<PrefixMessage>> prefixes_;  // by rank
  uint32_t missing_ = 0;                                // of them
};

}  // namespace muster::collective
