#include "job/environment.h"

#include <fmt/core.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/check.h"

namespace muster::job {
namespace {

using Json = nlohmann::ordered_json;  // keys in the order of the contract's examples

constexpr size_t kDocumentBytesMax = kExpandedBytesMax - 64;  // "CLUSTER_SPEC=" comes before it
constexpr int kOpenPort = 3333;  // what Vertex AI says in every CLUSTER_SPEC

// Compact. Bytes that are no UTF-8 cannot be in a spec; should some appear, they are replaced.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const PoolPlan& PoolOf(const JobPlan& plan, ReplicaId replica) {
  const PoolPlan* pool = plan.FindPool(replica.pool);
  MUSTER_CHECK(pool != nullptr && replica.index >= 0 && replica.index < pool->replica_count);
  return *pool;
}

// `make(with_args)` with the program's arguments in "job", or without them where the variable would
// be longer than a program can be started with. Arguments may have 100,000 characters, and quotes
// among them are escaped twice.
template <typename Make>
std::string WithinLimit(Make make) {
  std::string document = make(true);
  return document.size() <= kDocumentBytesMax ? document : make(false);
}

Json AddressesOf(const PoolPlan& pool, const ClusterAddresses& addresses) {
  Json list = Json::array();
  for (int index = 0; index < pool.replica_count; ++index) {
    const auto address = addresses.replicas.find({pool.pool, index});
    MUSTER_CHECK(address != addresses.replicas.end());
    list.push_back(address->second);
  }
  return list;
}

// The document within the document: a string of JSON, about the replica's own pool.
std::string TaskJson(const PoolPlan& pool, bool with_args) {
  Json job = {{"python_module", ""}, {"package_uris", Json::array()}, {"job_args", Json::array()}};
  if (const auto* package = std::get_if<PythonPackageTask>(&pool.task)) {
    job["python_module"] = package->python_module;
    job["package_uris"] = package->package_uris;
    if (with_args) job["job_args"] = package->args;
  } else if (with_args) {
    job["job_args"] = std::get<ContainerTask>(pool.task).args;
  }
  return Dump(job);
}

std::string_view TfTaskType(Role role) {
  switch (role) {
    case Role::kPrimary:
      return "chief";
    case Role::kWorker:
      return "worker";
    case Role::kParameterServer:
      return "ps";
    case Role::kEvaluator:
      return "evaluator";
    case Role::kReducer:
      return "reducer";  // TensorFlow's own code runs on none of them
  }
  std::abort();
}

// Whether TF_CONFIG's `cluster` names it and WORLD_SIZE counts it.
bool TakesPart(Role role) { return role != Role::kEvaluator && role != Role::kReducer; }

int WorldSize(const JobPlan& plan) {
  int size = 0;
  for (const PoolPlan& pool : plan.pools) {
    if (TakesPart(pool.role)) size += pool.replica_count;
  }
  return size;
}

// Counts on from pool to pool; for chief and workers: 0, then index + 1, as user code computes it.
std::optional<int> Rank(const JobPlan& plan, ReplicaId replica) {
  if (!TakesPart(PoolOf(plan, replica).role)) return std::nullopt;
  int rank = replica.index;
  for (const PoolPlan& pool : plan.pools) {
    if (pool.pool < replica.pool && TakesPart(pool.role)) rank += pool.replica_count;
  }
  return rank;
}

// Looks like Vertex AI's, the same for all jobs of a project: "w93a1503672d4dd09-ml".
std::string OpaqueCloud(const JobIdentity& job) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : job.project) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("w{:016x}-ml", hash);
}

Status AddOutputDirectories(const JobPlan& plan, const PathOfGsUri& path_of_gs_uri,
                            EnvironmentList& variables) {
  if (plan.base_output_directory.empty()) return {};
  constexpr std::pair<const char*, std::string_view> kDirectories[] = {
      {"AIP_MODEL_DIR", "/model/"},
      {"AIP_CHECKPOINT_DIR", "/checkpoints/"},
      {"AIP_TENSORBOARD_LOG_DIR", "/logs/"}};
  for (const auto& [name, directory] : kDirectories) {
    MUSTER_ASSIGN(std::string path,
                  path_of_gs_uri(fmt::format("{}{}", plan.base_output_directory, directory)));
    variables.emplace_back(name, std::move(path));
  }
  return {};
}

}  // namespace

std::string ClusterSpecJson(const JobPlan& plan, const ClusterAddresses& addresses,
                            ReplicaId replica) {
  Json cluster = Json::object();
  for (const PoolPlan& pool : plan.pools) {
    cluster[fmt::format("workerpool{}", pool.pool)] = AddressesOf(pool, addresses);
  }
  const PoolPlan& own = PoolOf(plan, replica);
  return WithinLimit([&](bool with_args) {
    return Dump(
        {{"cluster", cluster},
         {"environment", "cloud"},
         {"task", {{"type", fmt::format("workerpool{}", own.pool)}, {"index", replica.index}}},
         {"job", TaskJson(own, with_args)},
         {"open_ports", Json::array({kOpenPort})}});
  });
}

std::string TfConfigJson(const JobPlan& plan, const JobIdentity& job,
                         const ClusterAddresses& addresses, ReplicaId replica) {
  Json cluster = Json::object();
  for (const PoolPlan& pool : plan.pools) {
    if (!TakesPart(pool.role)) continue;
    cluster[std::string(TfTaskType(pool.role))] = AddressesOf(pool, addresses);
  }
  const PoolPlan& own = PoolOf(plan, replica);
  return WithinLimit([&](bool with_args) {
    return Dump({{"cluster", cluster},
                 {"environment", "cloud"},
                 {"job", TaskJson(own, with_args)},
                 {"task",
                  {{"type", TfTaskType(own.role)},
                   {"index", replica.index},
                   {"cloud", OpaqueCloud(job)}}}});
  });
}

Result<EnvironmentList> ServiceEnvironment(const JobPlan& plan, const JobIdentity& job,
                                           const ClusterAddresses& addresses, ReplicaId replica,
                                           const PathOfGsUri& path_of_gs_uri) {
  EnvironmentList variables = {
      {"CLOUD_ML_PROJECT_ID", job.project_number},
      {"CLOUD_ML_JOB_ID", job.job_id},
      {"CLOUD_ML_REGION", job.region},
      // Without it, the SDK inside the job asks Google for the name of CLOUD_ML_PROJECT_ID.
      {"GOOGLE_CLOUD_PROJECT", job.project},
      // Else gcsfs tries gRPC over TLS on the storage endpoint.
      {"GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false"},
  };
  MUSTER_TRY(AddOutputDirectories(plan, path_of_gs_uri, variables));
  if (!plan.tensorboard.empty()) {
    variables.emplace_back("AIP_TENSORBOARD_RESOURCE_NAME", plan.tensorboard);
  }
  variables.emplace_back("CLUSTER_SPEC", ClusterSpecJson(plan, addresses, replica));
  if (!plan.IsDistributed()) return variables;

  variables.emplace_back("TF_CONFIG", TfConfigJson(plan, job, addresses, replica));
  variables.emplace_back("MASTER_ADDR", addresses.master_host);
  variables.emplace_back("MASTER_PORT", fmt::format("{}", addresses.master_port));
  if (const std::optional<int> rank = Rank(plan, replica)) {
    variables.emplace_back("WORLD_SIZE", fmt::format("{}", WorldSize(plan)));
    variables.emplace_back("RANK", fmt::format("{}", *rank));
  }
  return variables;
}

}  // namespace muster::job
