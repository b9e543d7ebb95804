// What every replica is told: CLUSTER_SPEC, TF_CONFIG, MASTER_ADDR …, AIP_*, CLOUD_ML_*, and the
// user's env, args and command with $(VAR) expanded. Contract §1–3. Pure.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "job/plan.h"
#include "job/types.h"

namespace muster::job {

struct JobIdentity {
  std::string project;         // as in the resource name
  std::string project_number;  // decimal digits
  std::string region;
  std::string job_id;          // last part of the resource name
};

// Where the replicas can be reached.
struct ClusterAddresses {
  std::map<ReplicaId, std::string> replicas;  // "127.0.0.1:20001"
  std::string master_host;                    // for MASTER_ADDR
  int master_port = 0;                        // never a port of `replicas`
};

// "gs://bucket/path/" → a path that plain file calls can open, a trailing slash kept.
using PathOfGsUri = std::function<Result<std::string>(std::string_view gs_uri)>;

// The variables that Muster itself sets, in the order in which they may refer to each other.
Result<EnvironmentList> ServiceEnvironment(const JobPlan& plan, const JobIdentity& job,
                                           const ClusterAddresses& addresses, ReplicaId replica,
                                           const PathOfGsUri& path_of_gs_uri);

// `base` (the image's and the service's variables) followed by the user's, each expanded from what
// stands before it; a name that comes twice keeps the last value.
EnvironmentList MergeEnvironment(EnvironmentList base, const EnvironmentList& user);

// Kubernetes' rules: $(VAR) expands, an unknown one stays as written, $$ before ( escapes.
std::string Expand(std::string_view text, const EnvironmentList& environment);
std::vector<std::string> ExpandAll(const std::vector<std::string>& texts,
                                   const EnvironmentList& environment);

// The JSON documents alone, for tools and tests.
std::string ClusterSpecJson(const JobPlan& plan, const ClusterAddresses& addresses,
                            ReplicaId replica);
std::string TfConfigJson(const JobPlan& plan, const JobIdentity& job,
                         const ClusterAddresses& addresses, ReplicaId replica);

}  // namespace muster::job
