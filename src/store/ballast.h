// Disk space laid aside in a file, to be given up when the disk is full.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/error.h"

namespace muster::store {

class Ballast {
 public:
  Ballast(std::filesystem::path file, int64_t bytes);

  // Lays the space aside, unless it is. Nothing is kept of a part.
  Status Restore();
  // Gives it back; false if there was none.
  bool Release();
  bool is_held() const { return is_held_; }
  int64_t bytes() const { return bytes_; }

 private:
  const std::filesystem::path file_;
  const int64_t bytes_;
  bool is_held_ = false;
};

// Reserves blocks behind the end of a file without changing its length, so far as the disk and the
// file system permit.
void ReserveBehind(const std::filesystem::path& file, int64_t bytes);

}  // namespace muster::store
