#include "config/engine_options.h"

namespace muster::config {

engine::LocalEngineOptions EngineOptions(const Config& config,
                                         const std::filesystem::path& data_directory,
                                         const std::filesystem::path& buckets_root,
                                         const std::filesystem::path& agent_binary) {
  engine::LocalEngineOptions options;
  options.data_directory = data_directory;
  options.agent_binary = agent_binary;
  options.buckets_directory = buckets_root;
  options.buckets_elsewhere = config.buckets;
  options.oversubscribe = config.oversubscribe;
  options.cpus = config.cpus;
  options.memory_mb = config.memory_mb;
  options.gpus = config.gpus;
  options.wait_for_accelerators = config.accelerators == MissingAccelerators::kWait;
  options.private_network = config.network == Network::kPrivate;
  options.ports = {config.ports.first, config.ports.second};
  options.mounts = config.mounts == Isolation::kAuto;
  options.memory_limits = config.memory_limits == Isolation::kAuto;
  return options;
}

}  // namespace muster::config
