#include "engine/local/machine.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "base/fd.h"
#include "base/file.h"
#include "engine/local/cgroups.h"

namespace muster::engine {

namespace fs = std::filesystem;

namespace {
template <typename Number>
std::optional<Number> Parse(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// The smallest of what `read` finds in a cgroup and those above it.
template <typename Read>
void NarrowUpwards(fs::path directory, double& value, const Read& read) {
  while (!directory.empty() && directory != "/" && directory != "/sys/fs/cgroup") {
    if (const std::optional<double> limit = read(directory)) value = std::min(value, *limit);
    directory = directory.parent_path();
  }
}

OwnCgroups FindOwnCgroups() {
  return ParseOwnCgroups(ReadFile("/proc/self/mountinfo").value_or(""),
                         ReadFile("/proc/self/cgroup").value_or(""));
}

double FindCores(const OwnCgroups& cgroups) {
  double cores = std::max(1u, std::thread::hardware_concurrency());
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
  NarrowUpwards(cgroups.v2, cores, [](const fs::path& directory) {
    return ParseCpuMax(ReadFile(directory / "cpu.max").value_or(""));
  });
  return cores;
}

int64_t FindMemoryMb(const OwnCgroups& cgroups) {
  double bytes = double(::sysconf(_SC_PHYS_PAGES)) * double(::sysconf(_SC_PAGESIZE));
  const auto reader = [](const char* file) {
    return [file](const fs::path& directory) {
      return Parse<double>(ReadFile(directory / file).value_or(""));
    };
  };
  NarrowUpwards(cgroups.v2, bytes, reader("memory.max"));
  NarrowUpwards(cgroups.v1_memory, bytes, reader("memory.limit_in_bytes"));
  return int64_t(bytes / (1024 * 1024));
}
}  // namespace

Machine FindMachine(const MachineOverrides& overrides) {
  Machine machine;
  const OwnCgroups cgroups = FindOwnCgroups();
  machine.cores = overrides.cpus ? *overrides.cpus : FindCores(cgroups);
  machine.memory_mb = overrides.memory_mb ? *overrides.memory_mb : FindMemoryMb(cgroups);
  if (overrides.gpus) {
    for (int i = 0; i < *overrides.gpus; ++i) machine.gpus.push_back({i, "GPU", ""});
  } else {
    machine.gpus = overrides.find_gpus ? overrides.find_gpus() : FindGpus();
  }
  return machine;
}

std::vector<Gpu> FindGpus() {
  std::vector<Gpu> gpus = GpusOfDevices("/dev", "/proc/driver/nvidia/gpus");
  const bool has_driver = !gpus.empty() || fs::exists("/dev/dxg");  // WSL has no /dev/nvidia*
  if (has_driver) {
    const auto output = CommandOutput({"nvidia-smi", "-L"}, std::chrono::seconds(10));
    if (output) gpus = ParseNvidiaSmi(*output);
  }
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return RestrictGpus(std::move(gpus),
                      visible == nullptr ? std::nullopt : std::optional<std::string_view>(visible));
}

// "GPU 0: NVIDIA H200 (UUID: GPU-4f0c…)"; lines of MIG devices are indented.
std::vector<Gpu> ParseNvidiaSmi(std::string_view output) {
  std::vector<Gpu> gpus;
  std::istringstream lines{std::string(output)};
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("GPU ")) continue;
    const size_t colon = line.find(": ");
    const size_t uuid = line.rfind(" (UUID: ");
    const auto index = Parse<int>(std::string_view(line).substr(4));
    if (!index || colon == std::string::npos || uuid == std::string::npos || uuid < colon) continue;
    const size_t uuid_begin = uuid + std::string_view(" (UUID: ").size();
    gpus.push_back({*index, line.substr(colon + 2, uuid - colon - 2),
                    line.substr(uuid_begin, line.find(')', uuid_begin) - uuid_begin)});
  }
  return gpus;
}

std::vector<Gpu> GpusOfDevices(const fs::path& device_directory, const fs::path& driver_directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(driver_directory, error)) {
    std::istringstream lines(ReadFile(entry.path() / "information").value_or(""));
    std::string name = "NVIDIA GPU";
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("Model:")) continue;
      const size_t begin = line.find_first_not_of(" \t", 6);
      if (begin != std::string::npos) name = line.substr(begin);
    }
    names.push_back(name);
  }
  // A container may see all of the driver's GPUs there, and have the devices of some.
  size_t devices = 0;
  for (const auto& entry : fs::directory_iterator(device_directory, error)) {
    const std::string name = entry.path().filename();
    constexpr std::string_view kPrefix = "nvidia";
    if (name.size() > kPrefix.size() && name.starts_with(kPrefix) &&
        std::all_of(name.begin() + kPrefix.size(), name.end(),
                    [](char c) { return c >= '0' && c <= '9'; })) {
      ++devices;
    }
  }
  names.resize(devices, "NVIDIA GPU");
  std::vector<Gpu> gpus;
  for (const std::string& name : names) gpus.push_back({int(gpus.size()), name, ""});
  return gpus;
}

// CUDA's own rule: the list ends at the first entry that names no GPU.
std::vector<Gpu> RestrictGpus(std::vector<Gpu> gpus, std::optional<std::string_view> visible) {
  if (!visible) return gpus;
  std::vector<Gpu> chosen;
  std::istringstream entries{std::string(*visible)};
  for (std::string entry; std::getline(entries, entry, ',');) {
    std::erase(entry, ' ');
    const auto found = std::ranges::find_if(gpus, [&](const Gpu& gpu) {
      if (entry.starts_with("GPU-")) return gpu.uuid.starts_with(entry);
      return !entry.empty() && entry == std::to_string(gpu.index);
    });
    if (found == gpus.end()) break;
    if (std::ranges::find(chosen, *found) == chosen.end()) chosen.push_back(*found);
  }
  return chosen;
}

std::optional<double> ParseCpuMax(std::string_view text) {
  const auto quota = Parse<double>(text);
  const size_t space = text.find(' ');
  if (!quota || space == std::string_view::npos) return std::nullopt;
  const auto period = Parse<double>(text.substr(space + 1));
  if (!period || *period <= 0) return std::nullopt;
  return *quota / *period;
}

Result<std::string> CommandOutput(const std::vector<std::string>& argv,
                                  std::chrono::milliseconds limit) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return FailErrno(errno, "pipe");
  const UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, in.get(), 1);
  ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  std::vector<char*> pointers;
  for (const std::string& argument : argv) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, pointers[0], &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return FailErrno(error, argv[0]);
  in.Reset();

  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::string output;
  bool complete = false;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd wait{out.get(), POLLIN, 0};
    if (left.count() <= 0) break;
    const int ready = ::poll(&wait, 1, int(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    char buffer[4096];
    const ssize_t got = ::read(out.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    complete = got == 0;
    if (got <= 0) break;
    output.append(buffer, size_t(got));
  }
  if (!complete) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!complete) {
    return Fail(Code::kDeadlineExceeded, "{} took longer than {} ms", argv[0], limit.count());
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return Fail(Code::kUnknown, "{} failed", argv[0]);
  }
  return output;
}

}  // namespace muster::engine
