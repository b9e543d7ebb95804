// A server's complaint about a job, in the words of the file that the job was read from. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace muster::cli {

// `config`: the document of `file` as it was written, a CustomJobSpec or a whole CustomJob. Of
//   Invalid JSON payload received. Unknown name "replicaCnt" at
//   'custom_job.job_spec.worker_pool_specs[1]': Cannot find field.
// it makes
//   job.yaml: Unknown name "replicaCnt" at workerPoolSpecs[1]; did you mean "replicaCount"?
// with keys in snake_case if that is how the file spells them. A message that names no place in a
// custom_job is returned as it is.
std::string InWordsOfConfig(std::string_view message, std::string_view file,
                            const nlohmann::json& config);

}  // namespace muster::cli
