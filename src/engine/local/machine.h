// What this machine has: cores and memory that this process may use, and GPUs.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace muster::engine {

struct Gpu {
  int index = 0;  // for CUDA_VISIBLE_DEVICES, in the order of the PCI bus
  std::string name;
  std::string uuid;

  bool operator==(const Gpu&) const = default;
};

struct Machine {
  double cores = 0;
  int64_t memory_mb = 0;
  std::vector<Gpu> gpus;
};

using GpuFinder = std::function<std::vector<Gpu>()>;

struct MachineOverrides {
  std::optional<double> cpus;
  std::optional<int64_t> memory_mb;
  std::optional<int> gpus;  // this many, indices from 0; nothing is looked for
  GpuFinder find_gpus;      // empty: FindGpus
};

Machine FindMachine(const MachineOverrides& overrides);

// Asks `nvidia-smi -L` if there is one; else the driver's files tell. Only those that this
// process's own CUDA_VISIBLE_DEVICES admits. At most 10 s.
std::vector<Gpu> FindGpus();

// The parts, for tests.
std::vector<Gpu> ParseNvidiaSmi(std::string_view output);
std::vector<Gpu> GpusOfDevices(const std::filesystem::path& device_directory,
                               const std::filesystem::path& driver_directory);
std::vector<Gpu> RestrictGpus(std::vector<Gpu> gpus, std::optional<std::string_view> visible);
// Cores of a quota such as "150000 100000" (cgroup v2's cpu.max); nothing with "max".
std::optional<double> ParseCpuMax(std::string_view text);

// A short command's standard output. NOT_FOUND if there is no such program, DEADLINE_EXCEEDED.
Result<std::string> CommandOutput(const std::vector<std::string>& argv,
                                  std::chrono::milliseconds limit);

}  // namespace muster::engine
