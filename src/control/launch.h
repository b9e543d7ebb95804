// Plan + grant → launch specification of one attempt.
#pragma once

#include <muster/v1/agent.pb.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "bucket/bucket.h"
#include "control/image_map.h"
#include "engine/engine.h"
#include "job/environment.h"
#include "job/plan.h"

namespace muster::control {

// The same for all jobs of this musterd.
struct LaunchSite {
  std::filesystem::path data_directory;  // absolute
  std::string endpoint_file;             // <data directory>/musterd.json
  job::EnvironmentList inherited;        // what replicas take over from musterd's environment
  std::chrono::milliseconds grace_period{std::chrono::seconds(10)};
  std::string boot_id;     // this machine's, to tell its restarts from agents' deaths
  bool gcs_mount = false;  // replicas see /gcs/<bucket>; else only the real path
};

// Names that replicas take over from musterd: locale, proxies, certificates, pip's settings.
job::EnvironmentList InheritedEnvironment(char** environ);

std::filesystem::path JobDirectory(const LaunchSite& site, const std::string& job_uid);
std::filesystem::path AttemptDirectory(const LaunchSite& site, const engine::AttemptKey& attempt);

// "<job uid>/workerpool0-0/0": the value of MUSTER_ATTEMPT, by which stray processes are found.
std::string AttemptMarker(const engine::AttemptKey& attempt);

// Errors are the user's: an unmapped image, an empty command, a bad gs:// name. Checks what
// MakeLaunch would trip over, before anything is placed.
Status CheckRunnable(const job::JobPlan& plan, const ImageMap& images,
                     const bucket::BucketDirectories& buckets);

// Everything but isolation and token, which the engine and the caller fill in.
Result<muster::v1::LaunchSpec> MakeLaunch(const job::JobPlan& plan,
                                          const job::JobIdentity& identity,
                                          const engine::Grant& grant,
                                          const engine::AttemptKey& attempt, const ImageMap& images,
                                          const bucket::BucketDirectories& buckets,
                                          const LaunchSite& site);

}  // namespace muster::control
