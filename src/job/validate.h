// The rules of contract §5, all violations at once.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "job/machine_type.h"

namespace google::cloud::aiplatform::v1 {
class CustomJob;
class CustomJobSpec;
}  // namespace google::cloud::aiplatform::v1

namespace muster::job {

struct Violation {
  std::string field;  // "job_spec.worker_pool_specs[0].machine_spec.accelerator_type"
  std::string message;
};

std::vector<Violation> ValidateCustomJob(const google::cloud::aiplatform::v1::CustomJob& job,
                                         const MachineCatalog& machines);

// One INVALID_ARGUMENT error in the official format:
// "List of found errors:\t1.Field: …; Message: …\t2.Field: …; Message: …\t".
Error ValidationError(const std::vector<Violation>& violations);

}  // namespace muster::job
