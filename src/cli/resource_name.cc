#include "cli/resource_name.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "cli/dict_arg.h"

namespace muster::cli {
namespace {

constexpr std::string_view kDefaultProject = "muster";
constexpr std::string_view kDefaultRegion = "us-central1";

std::string FirstSet(const Variables& environment, const std::string& flag,
                     std::initializer_list<std::string_view> variables, std::string_view fallback) {
  if (!flag.empty()) return flag;
  for (const std::string_view name : variables) {
    if (const std::string* value = FindVariable(environment, name)) return *value;
  }
  return std::string(fallback);
}

// Letters, digits, and what project numbers, domain-scoped projects and IDs hold besides.
bool IsSegment(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == ':';
  });
}

bool IsId(std::string_view text) {
  return IsSegment(text) && text.find(':') == std::string_view::npos;
}

}  // namespace

std::string Location::Parent() const {
  return fmt::format("projects/{}/locations/{}", project, region);
}

Result<Location> ResolveLocation(const Variables& environment, const std::string& project_flag,
                                 const std::string& region_flag) {
  Location location;
  location.project = FirstSet(environment, project_flag,
                              {"MUSTER_PROJECT", "CLOUDSDK_CORE_PROJECT", "GOOGLE_CLOUD_PROJECT"},
                              kDefaultProject);
  location.region =
      FirstSet(environment, region_flag,
               {"MUSTER_REGION", "CLOUDSDK_AI_REGION", "CLOUDSDK_COMPUTE_REGION"}, kDefaultRegion);
  if (!IsSegment(location.project)) {
    return Fail(Code::kInvalidArgument, "Invalid value for [--project]: [{}] is no project",
                location.project);
  }
  if (!IsSegment(location.region)) {
    return Fail(Code::kInvalidArgument, "Invalid value for [--region]: [{}] is no region",
                location.region);
  }
  return location;
}

Result<std::string> JobName(std::string_view text, const Location& location,
                            std::string_view collection) {
  std::vector<std::string> parts = SplitNonEmpty(text, '/');
  if (!parts.empty() && (parts[0] == "v1" || parts[0] == "v1beta1")) parts.erase(parts.begin());
  if (parts.size() == 1 && text.find('/') == std::string_view::npos && IsId(parts[0])) {
    return fmt::format("{}/{}/{}", location.Parent(), collection, parts[0]);
  }
  if (parts.size() == 6 && parts[0] == "projects" && parts[2] == "locations" &&
      parts[4] == collection && std::ranges::all_of(parts, IsSegment) && IsId(parts[5])) {
    return fmt::format("projects/{}/locations/{}/{}/{}", parts[1], parts[3], collection, parts[5]);
  }
  return Fail(Code::kInvalidArgument,
              "[{}] names no job; give its ID or projects/PROJECT/locations/REGION/{}/ID", text,
              collection);
}

std::string BaseName(std::string_view name) {
  return std::string(name.substr(name.rfind('/') + 1));
}

}  // namespace muster::cli
