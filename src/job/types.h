// The nouns of a training job.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace muster::job {

// Where a replica stands in the cluster: worker pool 0..3, index within the pool.
struct ReplicaId {
  int pool = 0;
  int index = 0;

  auto operator<=>(const ReplicaId&) const = default;
};

// "workerpool1-0", as in Vertex AI's error texts and log labels.
std::string ReplicaName(ReplicaId replica);

// By position; a Reduction Server image in pool 2 makes its replicas reducers.
enum class Role { kPrimary, kWorker, kParameterServer, kReducer, kEvaluator };

// "primary", "worker", "parameter server", "reducer", "evaluator".
std::string_view RoleName(Role role);

// Numbers as in google.cloud.aiplatform.v1.JobState.
enum class JobState {
  kQueued = 1,
  kPending = 2,
  kRunning = 3,
  kSucceeded = 4,
  kFailed = 5,
  kCancelling = 6,
  kCancelled = 7,
};

constexpr bool IsTerminal(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

using EnvironmentList = std::vector<std::pair<std::string, std::string>>;

}  // namespace muster::job
