// musterd's configuration file (YAML). Every key is optional; an unknown one is an error that names
// it, its line and the nearest known key. docs/guides/configuration.md explains each to people.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "control/image_map.h"
#include "job/machine_type.h"

namespace muster::config {

enum class Network { kHost, kPrivate };
enum class MissingAccelerators { kRunWithout, kWait };
// What is made where the machine permits it.
enum class Isolation { kAuto, kOff };

struct Config {
  Network network = Network::kHost;
  MissingAccelerators accelerators = MissingAccelerators::kRunWithout;
  std::vector<control::ImageMapping> images;
  std::vector<job::MachineType> machine_types;
  std::filesystem::path buckets_root;                    // empty: <data-dir>/buckets
  std::map<std::string, std::filesystem::path> buckets;  // by name, elsewhere
  double oversubscribe = 16;                             // times the machine's vCPUs and memory
  std::optional<double> cpus;                            // instead of the machine's
  std::optional<int64_t> memory_mb;                      // MiB
  std::optional<int> gpus;
  std::chrono::milliseconds grace_period{std::chrono::seconds(10)};
  std::pair<int, int> ports{20000, 29999};
  Isolation mounts = Isolation::kAuto;  // /gcs and /var/log-storage
  Isolation memory_limits = Isolation::kAuto;
};

// `origin` names the text in errors: "muster.yaml:3: …".
Result<Config> ParseConfig(std::string_view yaml, const std::string& origin);
Result<Config> LoadConfig(const std::filesystem::path& file);

}  // namespace muster::config
