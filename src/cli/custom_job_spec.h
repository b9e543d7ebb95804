// CustomJob resources from command-line flags and configuration files. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/dict_arg.h"

namespace muster::cli {

// What `custom-jobs create` was given. Unset: the flag was not there.
struct CreateFlags {
  std::optional<std::string> display_name;
  std::vector<std::string> worker_pool_specs;  // as written, one for each flag
  std::optional<std::vector<std::string>> args;
  std::optional<std::vector<std::string>> command;
  std::optional<std::vector<std::string>> python_package_uris;
  Dict labels;
  std::optional<std::string> service_account;
  std::optional<std::string> network;
  std::optional<bool> enable_web_access;
  std::optional<bool> enable_dashboard_access;
  std::optional<std::string> persistent_resource_id;
};

// The body of a create request. `config` is a CustomJobSpec, or a whole CustomJob (it has jobSpec;
// what only servers fill in is dropped), its keys in camelCase or snake_case; null without
// --config. As in gcloud, flags win over the configuration: --worker-pool-spec replaces all its
// pools, --args,
// --command and --python-package-uris go to every pool; labels are merged. INVALID_ARGUMENT in
// gcloud's words. Values are left to the server's validation.
Result<nlohmann::json> BuildCustomJob(const CreateFlags& flags, const nlohmann::json& config);

// One --worker-pool-spec; an empty text is an empty pool.
Result<nlohmann::json> WorkerPoolFromFlag(std::string_view text, const CreateFlags& flags);

}  // namespace muster::cli
