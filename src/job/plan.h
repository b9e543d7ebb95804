// CustomJobSpec → plan: what to run, in which role, on what, under which rules. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "job/machine_type.h"
#include "job/types.h"

namespace google::cloud::aiplatform::v1 {
class CustomJobSpec;
}

namespace muster::job {

// Of a whole job. Vertex AI names no limit; this one keeps CLUSTER_SPEC within what a process may
// find in one variable.
inline constexpr int kReplicasMax = 1000;

struct ContainerTask {
  std::string image_uri;
  std::vector<std::string> command;  // replaces the image's ENTRYPOINT and drops its CMD
  std::vector<std::string> args;     // alone, replaces CMD
};

struct PythonPackageTask {
  std::string executor_image_uri;
  std::vector<std::string> package_uris;
  std::string python_module;
  std::vector<std::string> args;
};

struct PoolPlan {
  int pool = 0;  // 0..3: empty pools are skipped, numbers are kept
  Role role = Role::kWorker;
  int replica_count = 0;
  MachineType machine;
  std::string accelerator_type;  // "NVIDIA_TESLA_T4"; empty with none
  int accelerator_count = 0;     // of one replica; without a word in the spec, the machine's own
  std::variant<ContainerTask, PythonPackageTask> task;
  EnvironmentList env;  // the user's, as written

  const std::string& image_uri() const;
};

// contract §4. Zero max_wait: for ever.
struct SchedulingRules {
  std::chrono::seconds timeout{std::chrono::days(7)};
  bool disable_retries = false;
  bool restart_job_on_worker_restart = false;
  std::optional<std::chrono::seconds> max_wait;  // only with FLEX_START
};

struct JobPlan {
  std::vector<PoolPlan> pools;  // ascending by pool; pools[0] is the primary's
  SchedulingRules scheduling;
  std::string base_output_directory;  // "gs://b/out" or empty; no trailing slash
  std::string tensorboard;
  bool enable_web_access = false;

  // All replicas, in order of pool and index.
  std::vector<ReplicaId> Replicas() const;
  // Null if the plan has no such pool.
  const PoolPlan* FindPool(int pool) const;
  // More than one replica: then TF_CONFIG, MASTER_ADDR and so on are set.
  bool IsDistributed() const;
};

// The spec must have passed ValidateCustomJob with the same catalog; what cannot be planned all
// the same is INVALID_ARGUMENT.
Result<JobPlan> MakePlan(const google::cloud::aiplatform::v1::CustomJobSpec& spec,
                         const MachineCatalog& machines);

// True for {us,europe,asia}-docker.pkg.dev/vertex-ai-restricted/training/reductionserver[:tag].
bool IsReductionServerImage(std::string_view image_uri);

// Vertex AI's prebuilt images: the URI contains docker.pkg.dev/vertex-ai/ or
// gcr.io/cloud-aiplatform/.
bool IsPrebuiltImage(std::string_view image_uri);

}  // namespace muster::job
