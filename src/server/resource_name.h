// Names of resources in requests.
#pragma once

#include <string_view>

#include "base/error.h"

namespace muster::server {

// `pattern`: "projects/*/locations/*/customJobs/*", where * is one segment of letters, digits and
// -._~:@ . INVALID_ARGUMENT names the request's field and shows the pattern.
Status CheckName(std::string_view field, std::string_view name, std::string_view pattern);

inline constexpr std::string_view kLocationPattern = "projects/*/locations/*";
inline constexpr std::string_view kCustomJobPattern = "projects/*/locations/*/customJobs/*";

}  // namespace muster::server
