#include "cli/config_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "cli/command.h"

namespace muster::cli {
namespace {

using nlohmann::json;

// Of CustomJob and what is in it.
const std::vector<std::string>& KnownKeys() {
  static const std::vector<std::string> kKeys = {"acceleratorCount",
                                                 "acceleratorType",
                                                 "args",
                                                 "baseOutputDirectory",
                                                 "bootDiskSizeGb",
                                                 "bootDiskType",
                                                 "command",
                                                 "containerSpec",
                                                 "disableRetries",
                                                 "diskSpec",
                                                 "displayName",
                                                 "enableDashboardAccess",
                                                 "enableWebAccess",
                                                 "encryptionSpec",
                                                 "env",
                                                 "executorImageUri",
                                                 "experiment",
                                                 "experimentRun",
                                                 "imageUri",
                                                 "jobSpec",
                                                 "kmsKeyName",
                                                 "labels",
                                                 "machineSpec",
                                                 "machineType",
                                                 "maxWaitDuration",
                                                 "mountPoint",
                                                 "network",
                                                 "nfsMounts",
                                                 "outputUriPrefix",
                                                 "packageUris",
                                                 "persistentResourceId",
                                                 "protectedArtifactLocationId",
                                                 "pythonModule",
                                                 "pythonPackageSpec",
                                                 "replicaCount",
                                                 "reservationAffinity",
                                                 "reservedIpRanges",
                                                 "restartJobOnWorkerRestart",
                                                 "scheduling",
                                                 "serviceAccount",
                                                 "strategy",
                                                 "tensorboard",
                                                 "timeout",
                                                 "tpuTopology",
                                                 "value",
                                                 "workerPoolSpecs"};
  return kKeys;
}

std::string CamelCase(std::string_view snake) {
  std::string camel;
  for (size_t i = 0; i < snake.size(); ++i) {
    const bool is_joint = snake[i] == '_' && i > 0 && i + 1 < snake.size();
    camel += is_joint ? static_cast<char>(std::toupper(static_cast<unsigned char>(snake[++i])))
                      : snake[i];
  }
  return camel;
}

std::string SnakeCase(std::string_view camel) {
  std::string snake;
  for (const char c : camel) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isupper(byte) != 0) snake += '_';
    snake += static_cast<char>(std::tolower(byte));
  }
  return snake;
}

bool HasKey(const json& value, const std::string& key) {
  if (value.is_object() && value.contains(key)) return true;
  return value.is_structured() &&
         std::ranges::any_of(value, [&key](const json& item) { return HasKey(item, key); });
}

// As the file spells it.
std::string Spelled(const json& config, const std::string& camel) {
  const std::string snake = SnakeCase(camel);
  return !HasKey(config, camel) && HasKey(config, snake) ? snake : camel;
}

// "custom_job.job_spec.worker_pool_specs[1]" → "workerPoolSpecs[1]"
std::string PathInFile(std::string_view path, const json& config) {
  const auto drop = [&path](std::string_view prefix) {
    if (!path.starts_with(prefix)) return;
    path.remove_prefix(prefix.size());
    if (path.starts_with('.')) path.remove_prefix(1);
  };
  drop("custom_job");
  if (!HasKey(config, "jobSpec") && !HasKey(config, "job_spec")) drop("job_spec");
  std::string in_file;
  while (!path.empty()) {
    const std::string_view step = path.substr(0, path.find('.'));
    const std::string_view key = step.substr(0, step.find('['));
    if (!in_file.empty()) in_file += '.';
    in_file += Spelled(config, CamelCase(key));
    in_file += step.substr(key.size());
    path.remove_prefix(std::min(path.size(), step.size() + 1));
  }
  return in_file;
}

// What "Unknown name "…"" in front of a place says is unknown.
std::optional<std::string> UnknownName(std::string_view message) {
  constexpr std::string_view kBegin = "Unknown name \"";
  if (!message.starts_with(kBegin)) return std::nullopt;
  message.remove_prefix(kBegin.size());
  return std::string(message.substr(0, message.find('"')));
}

}  // namespace

std::string InWordsOfConfig(std::string_view message, std::string_view file, const json& config) {
  constexpr std::string_view kPayload = "Invalid JSON payload received. ";
  constexpr std::string_view kPlace = " at 'custom_job";
  const size_t at = message.find(kPlace);
  if (at == std::string_view::npos) return std::string(message);
  const size_t path_begin = at + std::string_view(" at '").size();
  const size_t path_end = message.find('\'', path_begin);
  if (path_end == std::string_view::npos) return std::string(message);

  const std::string path = PathInFile(message.substr(path_begin, path_end - path_begin), config);
  const std::string place = path.empty() ? "" : " at " + path;
  std::string_view what = message.substr(0, at);
  if (what.starts_with(kPayload)) what.remove_prefix(kPayload.size());
  const std::string_view rest = message.substr(path_end + 1);
  const std::optional<std::string> unknown = UnknownName(what);
  if (!unknown || rest != ": Cannot find field.") {
    return fmt::format("{}: {}{}{}", file, what, place, rest);
  }
  const std::string name = Spelled(config, *unknown);
  std::string text = fmt::format("{}: Unknown name \"{}\"{}", file, name, place);
  const std::optional<std::string> near = Nearest(*unknown, KnownKeys());
  if (!near || *near == *unknown) return text;
  const bool is_snake = name != *unknown;
  return text + fmt::format("; did you mean \"{}\"?",
                            is_snake ? SnakeCase(*near) : Spelled(config, *near));
}

}  // namespace muster::cli
