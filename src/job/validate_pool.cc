#include "job/validate_pool.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <google/cloud/aiplatform/v1/custom_job.pb.h>

#include <algorithm>

#include "base/utf8.h"

namespace muster::job {
namespace {

namespace aip = google::cloud::aiplatform::v1;

constexpr int kPackageUrisMax = 100;
constexpr int kEnvMax = 100;
constexpr size_t kArgsCharactersMax = 100'000;
constexpr int kBootDiskGbMin = 100;
constexpr int kBootDiskGbMax = 64'000;
constexpr int kAcceleratorsMax = 1024;  // of one replica: more is a mistake

bool IsCIdentifier(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && is_letter(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || is_digit(c); });
}

bool HoldsNul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

void ValidateMachine(const aip::MachineSpec& machine, const std::string& path,
                     const MachineCatalog& machines, Violations& violations) {
  if (machine.machine_type().empty()) {
    violations.AddMissing(path + ".machine_type");
  } else if (machines.Find(machine.machine_type()) == nullptr) {
    std::string message =
        fmt::format("Machine type {} is not supported.", Quoted(machine.machine_type()));
    if (const auto similar = machines.Similar(machine.machine_type(), 3); !similar.empty()) {
      message += fmt::format(" Did you mean {}?", fmt::join(similar, ", "));
    }
    message += " A type of your own can be added to musterd's configuration.";
    violations.Add(path + ".machine_type", std::move(message));
  }

  const bool has_type = machine.accelerator_type() != aip::ACCELERATOR_TYPE_UNSPECIFIED;
  if (has_type && !aip::AcceleratorType_IsValid(machine.accelerator_type())) {
    violations.Add(path + ".accelerator_type",
                   fmt::format("Accelerator type {} is not known.",
                               static_cast<int>(machine.accelerator_type())));
  } else if (has_type != (machine.accelerator_count() != 0)) {
    violations.Add(path + ".accelerator_type",
                   "Both `accelerator_type` and `accelerator_count` should be specified or none.");
  }
  if (machine.accelerator_count() < 0 || machine.accelerator_count() > kAcceleratorsMax) {
    violations.Add(path + ".accelerator_count",
                   fmt::format("The accelerator count must be between 0 and {}; found {}.",
                               kAcceleratorsMax, machine.accelerator_count()));
  }
}

void ValidateDisk(const aip::DiskSpec& disk, const std::string& path, Violations& violations) {
  const int gb = disk.boot_disk_size_gb();
  if (gb != 0 && (gb < kBootDiskGbMin || gb > kBootDiskGbMax)) {
    violations.Add(path + ".boot_disk_size_gb",
                   fmt::format("The boot disk size must be between {} and {} GB; found {}.",
                               kBootDiskGbMin, kBootDiskGbMax, gb));
  }
}

template <typename Repeated>
void ValidateEnv(const Repeated& env, const std::string& path, Violations& violations) {
  if (env.size() > kEnvMax) {
    violations.Add(path, fmt::format("At most {} environment variables may be set; found {}.",
                                     kEnvMax, env.size()));
  }
  for (int i = 0; i < std::min(env.size(), kEnvMax); ++i) {
    const std::string& name = env[i].name();
    if (name.empty()) {
      violations.AddMissing(fmt::format("{}[{}].name", path, i));
    } else if (!IsCIdentifier(name)) {
      violations.Add(fmt::format("{}[{}].name", path, i),
                     fmt::format("The name of an environment variable must be a C identifier: "
                                 "letters, digits and _, not beginning with a digit; found {}.",
                                 Quoted(name)));
    }
    if (HoldsNul(env[i].value())) {
      violations.Add(fmt::format("{}[{}].value", path, i), "The value holds a NUL character.");
    }
  }
}

// Command or args: nothing that a program cannot be started with.
template <typename Repeated>
void ValidateWords(const Repeated& words, const std::string& path, Violations& violations) {
  const auto nul = std::ranges::find_if(words, HoldsNul);
  if (nul != words.end()) {
    violations.Add(fmt::format("{}[{}]", path, nul - words.begin()),
                   "The text holds a NUL character.");
  }
}

template <typename Repeated>
void ValidateArgs(const Repeated& args, const std::string& path, Violations& violations) {
  size_t characters = 0;
  for (const std::string& arg : args) characters += CountCharacters(arg);
  if (characters > kArgsCharactersMax) {
    violations.Add(path, fmt::format("All args together may have at most {} characters; found {}.",
                                     kArgsCharactersMax, characters));
  }
  ValidateWords(args, path, violations);
}

void ValidateContainer(const aip::ContainerSpec& container, const std::string& path,
                       Violations& violations) {
  if (container.image_uri().empty()) violations.AddMissing(path + ".image_uri");
  ValidateWords(container.command(), path + ".command", violations);
  ValidateArgs(container.args(), path + ".args", violations);
  ValidateEnv(container.env(), path + ".env", violations);
}

void ValidatePackage(const aip::PythonPackageSpec& package, const std::string& path,
                     Violations& violations) {
  if (package.executor_image_uri().empty()) violations.AddMissing(path + ".executor_image_uri");
  if (package.package_uris_size() > kPackageUrisMax) {
    violations.Add(path + ".package_uris",
                   fmt::format("At most {} packages may be given; found {}.", kPackageUrisMax,
                               package.package_uris_size()));
  }
  for (int i = 0; i < std::min(package.package_uris_size(), kPackageUrisMax); ++i) {
    if (package.package_uris(i).empty()) {
      violations.AddMissing(fmt::format("{}.package_uris[{}]", path, i));
    }
  }
  if (package.python_module().empty()) {
    violations.AddMissing(path + ".python_module");
  } else if (HoldsNul(package.python_module())) {
    violations.Add(path + ".python_module", "The text holds a NUL character.");
  }
  ValidateArgs(package.args(), path + ".args", violations);
  ValidateEnv(package.env(), path + ".env", violations);
}

bool IsTpu(aip::AcceleratorType type) {
  return aip::AcceleratorType_IsValid(type) && aip::AcceleratorType_Name(type).starts_with("TPU_");
}

}  // namespace

void ValidatePool(const aip::WorkerPoolSpec& pool, std::string_view path,
                  const MachineCatalog& machines, Violations& violations) {
  const std::string prefix(path);
  ValidateMachine(pool.machine_spec(), prefix + ".machine_spec", machines, violations);
  ValidateDisk(pool.disk_spec(), prefix + ".disk_spec", violations);
  switch (pool.task_case()) {
    case aip::WorkerPoolSpec::kContainerSpec:
      ValidateContainer(pool.container_spec(), prefix + ".container_spec", violations);
      break;
    case aip::WorkerPoolSpec::kPythonPackageSpec:
      ValidatePackage(pool.python_package_spec(), prefix + ".python_package_spec", violations);
      break;
    case aip::WorkerPoolSpec::TASK_NOT_SET:
      violations.Add(prefix,
                     "Exactly one of `container_spec` and `python_package_spec` must be set.");
      break;
  }
}

bool UsesTpu(const aip::WorkerPoolSpec& pool) {
  const aip::MachineSpec& machine = pool.machine_spec();
  return IsTpu(machine.accelerator_type()) || machine.machine_type() == "cloud-tpu" ||
         machine.machine_type().find("-hightpu-") != std::string::npos;
}

std::string Quoted(std::string_view text) {
  constexpr size_t kShownBytesMax = 80;
  std::string shown = "\"";
  size_t end = std::min(text.size(), kShownBytesMax);
  while (end < text.size() && end > 0 && (text[end] & 0xc0) == 0x80) --end;  // whole characters
  for (const char c : text.substr(0, end)) {
    shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  shown += end < text.size() ? "…\"" : "\"";
  return shown;
}

}  // namespace muster::job
