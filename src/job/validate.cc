#include "job/validate.h"

#include <fmt/core.h>
#include <google/cloud/aiplatform/v1/custom_job.pb.h>

#include <algorithm>
#include <limits>

#include "base/utf8.h"
#include "job/plan.h"
#include "job/validate_pool.h"

namespace muster::job {
namespace {

namespace aip = google::cloud::aiplatform::v1;

constexpr size_t kDisplayNameCharactersMax = 128;
constexpr size_t kLabelsMax = 64;
constexpr size_t kLabelCharactersMax = 64;
constexpr int kPoolsMax = 4;
constexpr int64_t kDurationSecondsMax = 315'576'000'000;  // protobuf's own limit

void ValidateDisplayName(const std::string& name, Violations& violations) {
  if (name.empty()) {
    violations.AddMissing("display_name");
  } else if (const size_t characters = CountCharacters(name);
             characters > kDisplayNameCharactersMax) {
    violations.Add("display_name",
                   fmt::format("The display name may have at most {} characters; found {}.",
                               kDisplayNameCharactersMax, characters));
  }
}

// Letters of other scripts are allowed: bytes above ASCII pass.
bool HasLabelCharacters(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || (c & 0x80);
  });
}

template <typename Labels>
void ValidateLabels(const Labels& labels, Violations& violations) {
  if (labels.size() > kLabelsMax) {
    violations.Add("labels", fmt::format("At most {} labels may be set; found {}.", kLabelsMax,
                                         labels.size()));
    return;
  }
  std::vector<std::pair<std::string_view, std::string_view>> sorted(labels.begin(), labels.end());
  std::ranges::sort(sorted);  // a map of protobuf's has no order
  constexpr std::string_view kRule =
      "may have at most 64 characters, and only lowercase letters, digits, _ and -";
  for (const auto& [key, value] : sorted) {
    if (key.empty()) {
      violations.Add("labels", "The key of a label must not be empty.");
    } else if (CountCharacters(key) > kLabelCharactersMax || !HasLabelCharacters(key)) {
      violations.Add("labels", fmt::format("The label key {} {}.", Quoted(key), kRule));
    }
    if (CountCharacters(value) > kLabelCharactersMax || !HasLabelCharacters(value)) {
      violations.Add("labels", fmt::format("The value {} of the label {} {}.", Quoted(value),
                                           Quoted(key), kRule));
    }
  }
}

std::string PoolPath(int pool) { return fmt::format("job_spec.worker_pool_specs[{}]", pool); }

void ValidateReplicaCounts(const aip::CustomJobSpec& spec, int pools, Violations& violations) {
  if (const int64_t primaries = spec.worker_pool_specs(0).replica_count(); primaries != 1) {
    violations.Add(PoolPath(0) + ".replica_count",
                   fmt::format("The first worker pool is the primary replica's: its replica count "
                               "must be 1; found {}. More workers go to the second pool.",
                               primaries));
  }
  int64_t room = kReplicasMax - 1;
  for (int pool = 1; pool < pools; ++pool) {
    const int64_t count = spec.worker_pool_specs(pool).replica_count();
    if (count < 0) {
      violations.Add(PoolPath(pool) + ".replica_count",
                     fmt::format("The replica count must not be negative; found {}.", count));
    } else if (count > room) {
      violations.Add(
          PoolPath(pool) + ".replica_count",
          fmt::format("A job may have at most {} replicas in all; found {} in this pool.",
                      kReplicasMax, count));
      room = std::numeric_limits<int64_t>::max();  // said once
    } else {
      room -= count;
    }
  }
}

void ValidateTpu(const aip::CustomJobSpec& spec, int pools, Violations& violations) {
  std::vector<int> used;
  bool any_tpu = false;
  for (int pool = 0; pool < pools; ++pool) {
    if (spec.worker_pool_specs(pool).replica_count() == 0) continue;
    used.push_back(pool);
    any_tpu = any_tpu || UsesTpu(spec.worker_pool_specs(pool));
  }
  if (any_tpu && used.size() > 1) {
    violations.Add(PoolPath(used[1]),
                   "A job with TPUs must have one worker pool with one replica; leave the other "
                   "pools empty.");
  }
}

void ValidatePools(const aip::CustomJobSpec& spec, const MachineCatalog& machines,
                   Violations& violations) {
  if (spec.worker_pool_specs().empty()) {
    violations.AddMissing("job_spec.worker_pool_specs");
    return;
  }
  if (spec.worker_pool_specs_size() > kPoolsMax) {
    violations.Add("job_spec.worker_pool_specs",
                   fmt::format("At most {} worker pools may be given; found {}.", kPoolsMax,
                               spec.worker_pool_specs_size()));
  }
  const int pools = std::min(spec.worker_pool_specs_size(), kPoolsMax);
  ValidateReplicaCounts(spec, pools, violations);
  for (int pool = 0; pool < pools; ++pool) {
    // A later pool without replicas is skipped, whatever else it says: the official Python client
    // fills skipped pools with a machine and a task.
    if (pool > 0 && spec.worker_pool_specs(pool).replica_count() == 0) continue;
    ValidatePool(spec.worker_pool_specs(pool), PoolPath(pool), machines, violations);
  }
  ValidateTpu(spec, pools, violations);
}

// Google's rules for names of buckets, but for the least length: gs://b is too handy an example.
bool IsBucketName(std::string_view name) {
  const auto is_alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  };
  const size_t longest = name.find('.') == std::string_view::npos ? 63 : 222;
  return !name.empty() && name.size() <= longest && is_alphanumeric(name.front()) &&
         is_alphanumeric(name.back()) && std::ranges::all_of(name, [&](char c) {
           return is_alphanumeric(c) || c == '-' || c == '_' || c == '.';
         });
}

void ValidateOutput(const std::string& uri, Violations& violations) {
  const std::string field = "job_spec.base_output_directory.output_uri_prefix";
  constexpr std::string_view kScheme = "gs://";
  if (!uri.starts_with(kScheme)) {
    violations.Add(field, fmt::format("The output directory must be a Cloud Storage path, "
                                      "gs://bucket/directory; found {}.",
                                      Quoted(uri)));
    return;
  }
  const std::string_view path = std::string_view(uri).substr(kScheme.size());
  const size_t slash = path.find('/');
  if (const std::string_view bucket = path.substr(0, slash); !IsBucketName(bucket)) {
    violations.Add(
        field, fmt::format("{} in {} is not the name of a bucket.", Quoted(bucket), Quoted(uri)));
  }
  for (std::string_view rest = slash == std::string_view::npos ? "" : path.substr(slash + 1);;) {
    const size_t end = rest.find('/');
    const std::string_view segment = rest.substr(0, end);
    if (segment == "." || segment == ".." || segment.find('\0') != std::string_view::npos) {
      violations.Add(field, fmt::format("The output directory must have no . or .. in its path; "
                                        "found {}.",
                                        Quoted(uri)));
      return;
    }
    if (end == std::string_view::npos) return;
    rest.remove_prefix(end + 1);
  }
}

void ValidateDuration(const google::protobuf::Duration& duration, const std::string& field,
                      Violations& violations) {
  if (duration.seconds() < 0 || duration.nanos() < 0) {
    violations.Add(field, "The duration must not be negative.");
  } else if (duration.seconds() > kDurationSecondsMax || duration.nanos() > 999'999'999) {
    violations.Add(field, fmt::format("The duration must be at most {} s.", kDurationSecondsMax));
  }
}

void ValidateScheduling(const aip::Scheduling& scheduling, Violations& violations) {
  const std::string path = "job_spec.scheduling";
  ValidateDuration(scheduling.timeout(), path + ".timeout", violations);
  if (!aip::Scheduling::Strategy_IsValid(scheduling.strategy())) {
    violations.Add(path + ".strategy", fmt::format("Strategy {} is not known.",
                                                   static_cast<int>(scheduling.strategy())));
    return;
  }
  if (!scheduling.has_max_wait_duration()) return;
  ValidateDuration(scheduling.max_wait_duration(), path + ".max_wait_duration", violations);
  if (scheduling.strategy() != aip::Scheduling::FLEX_START) {
    violations.Add(path + ".max_wait_duration",
                   "`max_wait_duration` may be set only with the strategy FLEX_START.");
  }
}

}  // namespace

std::vector<Violation> ValidateCustomJob(const aip::CustomJob& job,
                                         const MachineCatalog& machines) {
  Violations violations;
  ValidateDisplayName(job.display_name(), violations);
  ValidateLabels(job.labels(), violations);
  if (!job.has_job_spec()) {
    violations.AddMissing("job_spec");
    return violations.Take();
  }
  const aip::CustomJobSpec& spec = job.job_spec();
  ValidatePools(spec, machines, violations);
  if (spec.has_scheduling()) ValidateScheduling(spec.scheduling(), violations);
  if (const std::string& uri = spec.base_output_directory().output_uri_prefix(); !uri.empty()) {
    ValidateOutput(uri, violations);
  }
  return violations.Take();
}

Error ValidationError(const std::vector<Violation>& violations) {
  std::string message = "List of found errors:\t";
  for (size_t i = 0; i < violations.size(); ++i) {
    message += fmt::format("{}.Field: {}; Message: {}\t", i + 1, violations[i].field,
                           violations[i].message);
  }
  return {Code::kInvalidArgument, std::move(message)};
}

}  // namespace muster::job
