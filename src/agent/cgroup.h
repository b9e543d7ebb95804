// A replica's cgroups: one in the v2 hierarchy, by which all its processes can be killed at once,
// and one where memory is limited and the kernel counts whom it killed for memory. Both may be the
// same directory; either may be missing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/error.h"

namespace muster::v1 {
class Isolation;
}

namespace muster::agent {

class ReplicaCgroups {
 public:
  // Makes the directories, and sets the limit.
  static Result<ReplicaCgroups> Make(const muster::v1::Isolation& isolation);

  // Moves the calling process into them. For a forked child.
  Status Join() const;
  // Kills what is inside, at once, where the kernel can do that.
  void Kill() const;
  // How many processes the kernel killed because memory ran out.
  int64_t OutOfMemoryKills() const;
  // False while something is still inside.
  bool TryRemove() const;

 private:
  std::filesystem::path kill_;
  std::filesystem::path memory_;
  std::vector<std::filesystem::path> made_;
};

}  // namespace muster::agent
