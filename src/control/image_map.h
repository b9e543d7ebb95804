// Container images as local environments, for the process runtime: which interpreter and variables
// an image URI stands for on this machine.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "job/plan.h"
#include "job/types.h"

namespace muster::control {

// "this machine as it is": what `muster run` uses.
inline constexpr std::string_view kHostImage = "muster.local/host";

struct ImageMapping {
  std::string pattern;                  // shell pattern on the whole URI: "gcr.io/my-project/*"
  std::string python;                   // a virtual environment or an interpreter; empty: PATH's
  job::EnvironmentList env;             // the image's ENV
  std::vector<std::string> entrypoint;  // the image's ENTRYPOINT
  std::vector<std::string> cmd;         // the image's CMD
  std::string working_directory;        // the image's WORKDIR
};

// What a task needs to run here.
struct LocalImage {
  std::string interpreter;   // absolute path of its python3; empty if there is none
  job::EnvironmentList env;  // PATH first, then VIRTUAL_ENV, then the mapping's
  std::vector<std::string> entrypoint;
  std::vector<std::string> cmd;
  std::string working_directory;
};

class ImageMap {
 public:
  // `path`: the PATH that environments stand on. `mappings`: the first that matches wins; after
  // them come muster.local/host and Vertex AI's prebuilt images, which mean the first python3 on
  // `path`.
  ImageMap(std::vector<ImageMapping> mappings, std::string path);

  // NOT_FOUND with the configuration line to add, or INVALID_ARGUMENT if the mapping's python is
  // not there.
  Result<LocalImage> Resolve(std::string_view image_uri) const;

  // Mappings that cannot work as this machine is now, one sentence each.
  std::vector<std::string> Problems() const;

 private:
  const ImageMapping* Match(std::string_view image_uri) const;

  std::vector<ImageMapping> mappings_;
  std::string path_;
};

// The program and its arguments by Kubernetes' rules: `command` replaces ENTRYPOINT and drops CMD,
// `args` alone replace CMD; python packages run as `python3 -m module args`. Not yet expanded.
// INVALID_ARGUMENT if nothing is left to run.
Result<std::vector<std::string>> ProgramOf(const job::PoolPlan& pool, const LocalImage& image);

}  // namespace muster::control
