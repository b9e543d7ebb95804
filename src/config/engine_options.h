// What the configuration means for the local engine.
#pragma once

#include <filesystem>

#include "config/config.h"
#include "engine/local/local_engine.h"

namespace muster::config {

engine::LocalEngineOptions EngineOptions(const Config& config,
                                         const std::filesystem::path& data_directory,
                                         const std::filesystem::path& buckets_root,
                                         const std::filesystem::path& agent_binary);

}  // namespace muster::config
