// Compute Engine machine types as Vertex AI offers them, and the site's own.
// Figures: contract §5 (GB per vCPU, egress Gbit/s) and Compute Engine's machine families.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::job {

struct MachineType {
  std::string name;  // "n1-standard-4"
  double vcpus = 0;
  int64_t memory_mb = 0;              // MiB
  int64_t egress_mbps = 0;            // Mbit/s
  int accelerator_count = 0;          // built in, e.g. a2-highgpu-2g has 2
  std::string accelerator_type = {};  // of those built in: "NVIDIA_TESLA_A100"; empty with none

  bool operator==(const MachineType&) const = default;
};

// Immutable once built; safe to share among threads.
class MachineCatalog {
 public:
  // The types that Vertex AI knows.
  static MachineCatalog Builtin();

  // A site's own type; replaces one of the same name.
  void Add(MachineType type);

  // Null if there is none of that name.
  const MachineType* Find(std::string_view name) const;

  // Up to `limit` known names that look like `name`, best first, for error messages. Empty if
  // nothing looks like it.
  std::vector<std::string> Similar(std::string_view name, size_t limit) const;

  // Sorted by name.
  const std::vector<MachineType>& types() const { return types_; }

 private:
  std::vector<MachineType> types_;  // sorted by name
};

}  // namespace muster::job
