#include "cli/custom_job_spec.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace muster::cli {
namespace {

using nlohmann::json;

constexpr auto kPoolKeys = std::to_array<std::string_view>(
    {"accelerator-count", "accelerator-type", "container-image-uri", "executor-image-uri",
     "extra-dirs", "extra-packages", "local-package-path", "machine-type", "output-image-uri",
     "python-module", "replica-count", "requirements", "script"});

// These make gcloud build an image from local files.
constexpr auto kPackagingKeys =
    std::to_array<std::string_view>({"extra-dirs", "extra-packages", "local-package-path",
                                     "output-image-uri", "requirements", "script"});

// Set by servers; a described job fed back must not send them.
constexpr auto kOutputFields = std::to_array<std::string_view>(
    {"name", "state", "createTime", "startTime", "endTime", "updateTime", "error", "webAccessUris",
     "satisfiesPzs", "satisfiesPzi"});

template <typename... Args>
std::unexpected<Error> FailPool(fmt::format_string<Args...> format, Args&&... args) {
  return Fail(Code::kInvalidArgument, "Invalid value for [--worker-pool-spec]: {}",
              fmt::format(format, std::forward<Args>(args)...));
}

const std::string* Find(const Dict& dict, std::string_view key) {
  const auto found = dict.find(key);
  return found == dict.end() ? nullptr : &found->second;
}

Result<int64_t> ParseCount(std::string_view key, std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return FailPool("Key [{}] must be an integer; received: [{}]", key, text);
  }
  return value;
}

Result<json> MachineSpec(const Dict& dict) {
  const std::string* machine_type = Find(dict, "machine-type");
  const std::string* accelerator_type = Find(dict, "accelerator-type");
  const std::string* accelerator_count = Find(dict, "accelerator-count");
  if (machine_type == nullptr) {
    return FailPool("Key [machine-type] required in dict arg but not provided.");
  }
  if (accelerator_count != nullptr && accelerator_type == nullptr) {
    return FailPool("Key [accelerator-type] required as [accelerator-count] is specified.");
  }
  json machine = {{"machineType", *machine_type}};
  if (accelerator_type != nullptr) {
    std::string name = *accelerator_type;  // gcloud takes nvidia-tesla-t4 as well
    std::ranges::transform(name, name.begin(), [](unsigned char c) {
      return c == '-' ? '_' : static_cast<char>(std::toupper(c));
    });
    machine["acceleratorType"] = name;
    machine["acceleratorCount"] = 1;
    if (accelerator_count != nullptr) {
      MUSTER_ASSIGN(machine["acceleratorCount"],
                    ParseCount("accelerator-count", *accelerator_count));
    }
  }
  return machine;
}

Status RefusePackaging(const Dict& dict) {
  for (const std::string_view key : kPackagingKeys) {
    if (!dict.contains(key)) continue;
    return FailPool(
        "Key [{}] builds an image from local files, which is not supported yet.\n"
        "To train with a program of this machine: muster run --workers N -- python train.py ARGS\n"
        "To train with a packaged module: executor-image-uri=URI,python-module=MODULE with "
        "--python-package-uris=gs://BUCKET/PACKAGE.tar.gz",
        key);
  }
  return {};
}

Status AddSoftware(const Dict& dict, const CreateFlags& flags, json& pool) {
  const std::string* container = Find(dict, "container-image-uri");
  const std::string* executor = Find(dict, "executor-image-uri");
  const std::string* module = Find(dict, "python-module");
  if ((container == nullptr) == (executor == nullptr)) {
    return FailPool("Exactly one of keys [executor-image-uri, container-image-uri] is required.");
  }
  MUSTER_TRY(RefusePackaging(dict));
  if (container != nullptr) {
    if (module != nullptr) {
      return FailPool("Key [python-module] can not be used together with [container-image-uri].");
    }
    pool["containerSpec"] = {{"imageUri", *container}};
    return {};
  }
  if (module == nullptr) {
    return FailPool("Key [python-module] required as [executor-image-uri] is specified.");
  }
  if (!flags.python_package_uris || flags.python_package_uris->empty()) {
    return Fail(Code::kInvalidArgument,
                "Invalid value for [--python-package-uris]: required as [python-module] is "
                "specified in --worker-pool-spec.");
  }
  pool["pythonPackageSpec"] = {{"executorImageUri", *executor}, {"pythonModule", *module}};
  return {};
}

std::string ToCamelCase(std::string_view key) {
  std::string camel;
  for (size_t i = 0; i < key.size(); ++i) {
    const bool joins = key[i] == '_' && i > 0 && i + 1 < key.size();
    if (joins) ++i;
    camel += joins ? static_cast<char>(std::toupper(static_cast<unsigned char>(key[i]))) : key[i];
  }
  return camel;
}

// Field names in camelCase throughout; labels' keys are the user's own.
json CamelCaseKeys(const json& value) {
  if (value.is_array()) {
    json list = json::array();
    for (const json& item : value) list.push_back(CamelCaseKeys(item));
    return list;
  }
  if (!value.is_object()) return value;
  json object = json::object();
  for (const auto& [key, item] : value.items()) {
    object[ToCamelCase(key)] = key == "labels" ? item : CamelCaseKeys(item);
  }
  return object;
}

// `config` as a CustomJob with a jobSpec.
Result<json> JobFromConfig(const json& config) {
  if (config.is_null()) return json{{"jobSpec", json::object()}};
  if (!config.is_object()) {
    return Fail(
        Code::kInvalidArgument,
        "Invalid value for [--config]: expected a CustomJobSpec, a mapping that starts with "
        "workerPoolSpecs");
  }
  json job = CamelCaseKeys(config);
  if (!job.contains("jobSpec")) job = json{{"jobSpec", std::move(job)}};
  for (const std::string_view field : kOutputFields) job.erase(std::string(field));
  json& spec = job["jobSpec"];
  if (!spec.is_object()) {
    return Fail(Code::kInvalidArgument, "Invalid value for [--config]: jobSpec is not a mapping");
  }
  if (const auto pools = spec.find("workerPoolSpecs"); pools != spec.end() && pools->is_object()) {
    *pools = json::array({*pools});  // Google's documentation shows one pool as a mapping
  }
  return job;
}

// --args, --command and --python-package-uris go to every pool that can take them.
void ApplyProgramFlags(const CreateFlags& flags, json& pools) {
  if (!pools.is_array()) return;
  for (json& pool : pools) {
    if (!pool.is_object()) continue;
    for (const char* kind : {"containerSpec", "pythonPackageSpec"}) {
      const auto spec = pool.find(kind);
      if (spec == pool.end() || !spec->is_object()) continue;
      if (flags.args) (*spec)["args"] = *flags.args;
      if (kind == std::string_view("containerSpec")) {
        if (flags.command) (*spec)["command"] = *flags.command;
      } else if (flags.python_package_uris) {
        (*spec)["packageUris"] = *flags.python_package_uris;
      }
    }
  }
}

void ApplyJobFlags(const CreateFlags& flags, json& job) {
  json& spec = job["jobSpec"];
  if (flags.display_name) job["displayName"] = *flags.display_name;
  for (const auto& [key, value] : flags.labels) job["labels"][key] = value;
  if (flags.service_account) spec["serviceAccount"] = *flags.service_account;
  if (flags.network) spec["network"] = *flags.network;
  if (flags.enable_web_access) spec["enableWebAccess"] = *flags.enable_web_access;
  if (flags.enable_dashboard_access) spec["enableDashboardAccess"] = *flags.enable_dashboard_access;
  if (flags.persistent_resource_id) spec["persistentResourceId"] = *flags.persistent_resource_id;
}

}  // namespace

Result<json> WorkerPoolFromFlag(std::string_view text, const CreateFlags& flags) {
  const Result<Dict> dict = ParseDictFlag(text, kPoolKeys);
  if (!dict) return FailPool("{}", dict.error().message);
  json pool = json::object();
  if (dict->empty()) return pool;
  MUSTER_ASSIGN(pool["machineSpec"], MachineSpec(*dict));
  MUSTER_TRY(AddSoftware(*dict, flags, pool));
  const std::string* replicas = Find(*dict, "replica-count");
  int64_t count = 1;
  if (replicas != nullptr) {
    MUSTER_ASSIGN(count, ParseCount("replica-count", *replicas));
  }
  pool["replicaCount"] = std::to_string(count);  // int64 is text in proto3's JSON
  return pool;
}

Result<json> BuildCustomJob(const CreateFlags& flags, const json& config) {
  MUSTER_ASSIGN(json job, JobFromConfig(config));
  json& spec = job["jobSpec"];
  if (!flags.worker_pool_specs.empty()) {
    json pools = json::array();
    for (const std::string& text : flags.worker_pool_specs) {
      MUSTER_ASSIGN(json pool, WorkerPoolFromFlag(text, flags));
      pools.push_back(std::move(pool));
    }
    if (pools[0].empty()) {
      return FailPool("Empty value is not allowed for the first `--worker-pool-spec` flag.");
    }
    spec["workerPoolSpecs"] = std::move(pools);
  }
  if (const auto pools = spec.find("workerPoolSpecs"); pools != spec.end()) {
    ApplyProgramFlags(flags, *pools);
  }
  ApplyJobFlags(flags, job);
  const auto name = job.find("displayName");
  if (name == job.end() || !name->is_string() || name->get_ref<const std::string&>().empty()) {
    return Fail(Code::kInvalidArgument,
                "argument --display-name: Must be specified, or displayName in --config.");
  }
  return job;
}

}  // namespace muster::cli
