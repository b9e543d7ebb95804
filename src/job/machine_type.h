// Compute Engine machine types as Vertex AI offers them, and the site's own.
// Figures: contract §5 (GB per vCPU, egress Gbit/s).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::job {

struct MachineType {
  std::string name;        // "n1-standard-4"
  double vcpus = 0;
  int64_t memory_mb = 0;   // MiB
  int64_t egress_mbps = 0; // Mbit/s
  int accelerator_count = 0;  // built in, e.g. a2-highgpu-2g has 2

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

  // Up to `limit` known names that look like `name`, best first, for error messages.
  std::vector<std::string> Similar(std::string_view name, size_t limit) const;

 private:
  std::vector<MachineType> types_;  // sorted by name
};

}  // namespace muster::job
