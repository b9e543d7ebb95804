// The rules of one worker pool; validate.cc has those of the job. Internal to this module.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "job/machine_type.h"
#include "job/validate.h"

namespace google::cloud::aiplatform::v1 {
class WorkerPoolSpec;
}

namespace muster::job {

// Collects what is wrong, under the path of the message that is being looked at.
class Violations {
 public:
  void Add(std::string field, std::string message) {
    found_.push_back({std::move(field), std::move(message)});
  }
  // The field must be set, and is not.
  void AddMissing(std::string field) { Add(std::move(field), "Required field is not set."); }

  std::vector<Violation> Take() { return std::move(found_); }

 private:
  std::vector<Violation> found_;
};

// A pool that is not skipped. `path` is "job_spec.worker_pool_specs[0]".
void ValidatePool(const google::cloud::aiplatform::v1::WorkerPoolSpec& pool, std::string_view path,
                  const MachineCatalog& machines, Violations& violations);

// By its accelerators or its machine.
bool UsesTpu(const google::cloud::aiplatform::v1::WorkerPoolSpec& pool);

// A user's text within a message: in quotes, shortened, control characters replaced.
std::string Quoted(std::string_view text);

}  // namespace muster::job
