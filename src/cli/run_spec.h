// What `muster run` makes of a command: a CustomJob in which every replica runs it in this
// directory and this environment. Pure.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "cli/context.h"
#include "cli/dict_arg.h"

namespace muster::cli {

// The image URI that means the machine as it is: no container, no mapping.
inline constexpr std::string_view kHostImage = "muster.local/host";

struct RunFlags {
  int workers = 0;  // beside the chief
  int parameter_servers = 0;
  bool evaluator = false;
  std::string display_name;  // empty: after the program
  std::string machine_type = "e2-standard-4";
  std::string accelerator_type;  // for chief, workers and evaluator
  int accelerator_count = 0;
  std::string image = std::string(kHostImage);
  std::string base_output_directory;  // empty: gs://muster-runs/<display name>-<time>
  std::vector<std::string> env;       // "K=V", or "K" for the caller's value
  std::optional<std::chrono::seconds> timeout;
  Dict labels;
  std::vector<std::string> program;  // argv
};

// The program gets what was typed: where the service would expand $(…) or $$, they are escaped, but
// for $(AIP_…) and $(CLOUD_ML_…), which only the service knows. Of the caller's environment, PATH,
// VIRTUAL_ENV, CONDA_PREFIX, PYTHONPATH, LD_LIBRARY_PATH, HOME, USER and LANG are passed on;
// PYTHONUNBUFFERED=1 is added, so that output is seen when it is written. INVALID_ARGUMENT for
// flags that make no job. `now` names the run.
Result<nlohmann::json> BuildRunJob(const RunFlags& flags, const Variables& environment,
                                   const std::string& directory, Time now);

// "python train.py" → "train"; "./fit" → "fit"; always a usable display name.
std::string NameOfProgram(const std::vector<std::string>& program);

}  // namespace muster::cli
