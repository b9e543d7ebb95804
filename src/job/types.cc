#include "job/types.h"

#include <fmt/core.h>

#include <cstdlib>

namespace muster::job {

std::string ReplicaName(ReplicaId replica) {
  return fmt::format("workerpool{}-{}", replica.pool, replica.index);
}

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kPrimary:
      return "primary";
    case Role::kWorker:
      return "worker";
    case Role::kParameterServer:
      return "parameter server";
    case Role::kReducer:
      return "reducer";
    case Role::kEvaluator:
      return "evaluator";
  }
  std::abort();
}

}  // namespace muster::job
