// What Muster reads of /proc/<pid>/stat.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace muster::attempt {

struct ProcStat {
  char state = '?';
  int parent = 0;
  int session = 0;
  uint64_t start_time_ticks = 0;  // since boot; with the number it names a process of this boot

  // Only the remains of a process: it has ended, and nobody has asked how.
  bool is_zombie() const { return state == 'Z' || state == 'X'; }
};

// Empty if there is no such process. Allocates nothing.
std::optional<ProcStat> ReadProcStat(int pid);

// A line of such a file, whose second field, the program's name, may hold anything.
std::optional<ProcStat> ParseProcStat(std::string_view line);

}  // namespace muster::attempt
