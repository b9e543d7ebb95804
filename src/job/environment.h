// What every replica is told: CLUSTER_SPEC, TF_CONFIG, MASTER_ADDR …, AIP_*, CLOUD_ML_*, and the
// user's env, args and command with $(VAR) expanded. Contract §1–3. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "job/plan.h"
#include "job/types.h"

namespace muster::job {

struct JobIdentity {
  std::string project;         // as in the resource name
  std::string project_number;  // decimal digits
  std::string region;
  std::string job_id;  // last part of the resource name
};

// Where the replicas can be reached.
struct ClusterAddresses {
  std::map<ReplicaId, std::string> replicas;  // "127.0.0.1:20001"
  std::string master_host;                    // for MASTER_ADDR
  int master_port = 0;                        // never a port of `replicas`
};

// "gs://bucket/path/" → a path that plain file calls can open, a trailing slash kept.
using PathOfGsUri = std::function<Result<std::string>(std::string_view gs_uri)>;

// The variables that Muster itself sets for `replica`, literally: nothing in them is expanded.
// Fails if `path_of_gs_uri` does. MASTER_ADDR and MASTER_PORT are on every replica of a distributed
// job, WORLD_SIZE and RANK only on those that count: neither reducers nor evaluators.
Result<EnvironmentList> ServiceEnvironment(const JobPlan& plan, const JobIdentity& job,
                                           const ClusterAddresses& addresses, ReplicaId replica,
                                           const PathOfGsUri& path_of_gs_uri);

// `base` (the image's and the service's variables, literally) followed by the user's, each of these
// expanded from what stands before it; a name that comes twice keeps the last value.
EnvironmentList MergeEnvironment(EnvironmentList base, const EnvironmentList& user);

// No program can be started with a string longer than this (Linux's MAX_ARG_STRLEN), nor with more
// than this in all. Expansion goes no further: a reference that would is left as written. So
// variables that double each other's length cannot eat the memory.
inline constexpr size_t kExpandedBytesMax = size_t{128} * 1024;
inline constexpr size_t kExpandedBytesTotalMax = size_t{6} * 1024 * 1024;

// Kubernetes' rules: $(VAR) expands, once and not recursively; a reference to an unknown variable
// stays as written, and so does every other $ but $$, which becomes $ and begins no reference:
// $$(VAR) is $(VAR).
std::string Expand(std::string_view text, const EnvironmentList& environment);
std::vector<std::string> ExpandAll(const std::vector<std::string>& texts,
                                   const EnvironmentList& environment);

// The JSON documents alone, for tools and tests.
std::string ClusterSpecJson(const JobPlan& plan, const ClusterAddresses& addresses,
                            ReplicaId replica);
std::string TfConfigJson(const JobPlan& plan, const JobIdentity& job,
                         const ClusterAddresses& addresses, ReplicaId replica);

}  // namespace muster::job
