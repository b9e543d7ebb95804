#include "control/launch.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "attempt/files.h"
#include "base/file.h"

namespace muster::control {
namespace {

namespace fs = std::filesystem;

bool IsInherited(std::string_view name) {
  static constexpr std::array<std::string_view, 24> kNames = {"HOME",
                                                              "USER",
                                                              "LOGNAME",
                                                              "SHELL",
                                                              "LANG",
                                                              "LANGUAGE",
                                                              "TZ",
                                                              "TERM",
                                                              "http_proxy",
                                                              "https_proxy",
                                                              "no_proxy",
                                                              "HTTP_PROXY",
                                                              "HTTPS_PROXY",
                                                              "NO_PROXY",
                                                              "SSL_CERT_FILE",
                                                              "SSL_CERT_DIR",
                                                              "CURL_CA_BUNDLE",
                                                              "REQUESTS_CA_BUNDLE",
                                                              "LD_LIBRARY_PATH",
                                                              "CUDA_HOME",
                                                              "XDG_CACHE_HOME",
                                                              "HF_HOME",
                                                              "TORCH_HOME",
                                                              "KERAS_HOME"};
  return std::ranges::find(kNames, name) != kNames.end() || name.starts_with("LC_") ||
         name.starts_with("PIP_");
}

std::string GpuList(const std::vector<int>& gpus) {
  // "-1" hides every GPU from CUDA programs that were not given one.
  return gpus.empty() ? "-1" : fmt::format("{}", fmt::join(gpus, ","));
}

// Set beside the contract's variables because all replicas of a job share this machine: collectives
// find each other over loopback, output is not held back, gcsfs does not probe for gRPC.
job::EnvironmentList LocalEnvironment(const engine::Place& place) {
  return {{"PYTHONUNBUFFERED", "1"},           {"GLOO_SOCKET_IFNAME", "lo"},
          {"NCCL_SOCKET_IFNAME", "lo"},        {"GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false"},
          {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}, {"CUDA_VISIBLE_DEVICES", GpuList(place.gpus)}};
}

job::ClusterAddresses AddressesOf(const engine::Grant& grant) {
  job::ClusterAddresses addresses;
  for (const auto& [replica, place] : grant.places) {
    addresses.replicas[replica] = fmt::format("{}:{}", place.host, place.port);
  }
  addresses.master_host = grant.master_host;
  addresses.master_port = grant.master_port;
  return addresses;
}

// Where the job reads and writes gs:// names; output directories are made, since plain file calls
// do not make parents.
job::PathOfGsUri PathMapper(const bucket::BucketDirectories& buckets, bool gcs_mount) {
  return [&buckets, gcs_mount](std::string_view uri) -> Result<std::string> {
    MUSTER_ASSIGN(std::string host_path, buckets.HostPath(uri));
    if (uri.ends_with('/')) MUSTER_TRY(MakeDirectories(host_path));
    if (!gcs_mount) return host_path;
    return bucket::MountPath(uri);
  };
}

// gs:// names and plain absolute paths of Python packages → paths on this host.
Result<std::string> PackageFile(const std::string& uri, const bucket::BucketDirectories& buckets,
                                int pool) {
  std::string path = uri;
  if (uri.starts_with("gs://")) {
    MUSTER_ASSIGN(path, buckets.HostPath(uri));
  } else if (uri.starts_with("file://")) {
    path = uri.substr(std::string_view("file://").size());
  }
  if (!path.starts_with('/')) {
    return Fail(Code::kInvalidArgument,
                "job_spec.worker_pool_specs[{}].python_package_spec.package_uris: '{}' is neither "
                "a gs:// name nor an absolute path",
                pool, uri);
  }
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    return Fail(Code::kNotFound,
                "The package {} of worker pool {} does not exist: there is no file {}", uri, pool,
                path);
  }
  return path;
}

}  // namespace

job::EnvironmentList InheritedEnvironment(char** environ) {
  job::EnvironmentList inherited;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || !IsInherited(text.substr(0, equals))) continue;
    inherited.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return inherited;
}

fs::path JobDirectory(const LaunchSite& site, const std::string& job_uid) {
  return site.data_directory / "jobs" / job_uid;
}

fs::path AttemptDirectory(const LaunchSite& site, const engine::AttemptKey& attempt) {
  return JobDirectory(site, attempt.job_uid) / job::ReplicaName(attempt.replica) /
         fmt::format("attempt-{}", attempt.attempt);
}

std::string AttemptMarker(const engine::AttemptKey& attempt) {
  return fmt::format("{}/{}/{}", attempt.job_uid, job::ReplicaName(attempt.replica),
                     attempt.attempt);
}

Status CheckRunnable(const job::JobPlan& plan, const ImageMap& images,
                     const bucket::BucketDirectories& buckets) {
  if (!plan.base_output_directory.empty()) {
    MUSTER_TRY(buckets.HostPath(plan.base_output_directory));
  }
  for (const job::PoolPlan& pool : plan.pools) {
    if (pool.role == job::Role::kReducer) {
      return Fail(
          Code::kUnimplemented,
          "Worker pool {} runs the Reduction Server ({}), which this version of Muster does "
          "not have yet: leave the pool out and the job runs the same, without reducers",
          pool.pool, pool.image_uri());
    }
    auto image = images.Resolve(pool.image_uri());
    if (!image) {
      return Fail(image.error().code, "Worker pool {}: {}", pool.pool, image.error().message);
    }
    MUSTER_TRY(ProgramOf(pool, *image));
    if (const auto* package = std::get_if<job::PythonPackageTask>(&pool.task)) {
      if (image->interpreter.empty()) {
        return Fail(Code::kFailedPrecondition,
                    "Worker pool {} runs a Python package, but musterd found no python3 on its "
                    "PATH: map the image {} to a virtual environment in musterd's configuration",
                    pool.pool, pool.image_uri());
      }
      for (const std::string& uri : package->package_uris) {
        MUSTER_TRY(PackageFile(uri, buckets, pool.pool));
      }
    }
  }
  return {};
}

Result<muster::v1::LaunchSpec> MakeLaunch(const job::JobPlan& plan,
                                          const job::JobIdentity& identity,
                                          const engine::Grant& grant,
                                          const engine::AttemptKey& attempt, const ImageMap& images,
                                          const bucket::BucketDirectories& buckets,
                                          const LaunchSite& site) {
  const job::PoolPlan& pool = *plan.FindPool(attempt.replica.pool);
  MUSTER_ASSIGN(const LocalImage image, images.Resolve(pool.image_uri()));
  MUSTER_ASSIGN(const std::vector<std::string> program, ProgramOf(pool, image));
  MUSTER_ASSIGN(const job::EnvironmentList service,
                job::ServiceEnvironment(plan, identity, AddressesOf(grant), attempt.replica,
                                        PathMapper(buckets, site.gcs_mount)));

  job::EnvironmentList base = site.inherited;
  const job::EnvironmentList local = LocalEnvironment(grant.places.at(attempt.replica));
  base.insert(base.end(), local.begin(), local.end());
  base.insert(base.end(), image.env.begin(), image.env.end());
  base.insert(base.end(), service.begin(), service.end());
  job::EnvironmentList environment = job::MergeEnvironment(std::move(base), pool.env);
  environment.emplace_back(muster::attempt::kAttemptVariable, AttemptMarker(attempt));

  muster::v1::LaunchSpec spec;
  spec.mutable_id()->set_job_uid(attempt.job_uid);
  spec.mutable_id()->set_pool(attempt.replica.pool);
  spec.mutable_id()->set_index(attempt.replica.index);
  spec.mutable_id()->set_attempt(attempt.attempt);
  spec.set_replica_name(job::ReplicaName(attempt.replica));
  spec.set_attempt_directory(AttemptDirectory(site, attempt));
  for (const auto& [name, value] : environment) {
    auto* variable = spec.add_environment();
    variable->set_name(name);
    variable->set_value(value);
  }
  for (std::string& word : job::ExpandAll(program, environment)) spec.add_argv(std::move(word));
  spec.set_working_directory(image.working_directory);
  *spec.mutable_grace_period() =
      google::protobuf::util::TimeUtil::MillisecondsToDuration(site.grace_period.count());
  if (const auto* package = std::get_if<job::PythonPackageTask>(&pool.task)) {
    auto* packages = spec.mutable_python_packages();
    packages->set_interpreter(image.interpreter);
    packages->set_environment_directory(JobDirectory(site, attempt.job_uid) /
                                        fmt::format("python-pool{}", pool.pool));
    for (const std::string& uri : package->package_uris) {
      MUSTER_ASSIGN(*packages->add_files(), PackageFile(uri, buckets, pool.pool));
    }
  }
  spec.set_endpoint_file(site.endpoint_file);
  return spec;
}

}  // namespace muster::control
