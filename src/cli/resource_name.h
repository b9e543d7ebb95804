// Names of projects, regions and jobs, from flags, environment and defaults.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "cli/context.h"

namespace muster::cli {

// --project, MUSTER_PROJECT, CLOUDSDK_CORE_PROJECT, GOOGLE_CLOUD_PROJECT, or "muster";
// --region, MUSTER_REGION, CLOUDSDK_AI_REGION, CLOUDSDK_COMPUTE_REGION, or "us-central1".
struct Location {
  std::string project;
  std::string region;

  std::string Parent() const;  // "projects/P/locations/R"
};

// INVALID_ARGUMENT if a name cannot be one.
Result<Location> ResolveLocation(const Variables& environment, const std::string& project_flag,
                                 const std::string& region_flag);

// `text` is a job's full name ("projects/P/locations/R/customJobs/ID"; a URL's path with /v1/ in
// front will do) or its bare ID in `location`. INVALID_ARGUMENT otherwise.
Result<std::string> JobName(std::string_view text, const Location& location,
                            std::string_view collection);

// What follows the last slash.
std::string BaseName(std::string_view name);

}  // namespace muster::cli
