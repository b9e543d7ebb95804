// Follows <attempt>/log-storage/output*.log (contract §4) into the replica's log, line by line.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "base/fd.h"
#include "logs/writer.h"

namespace muster::agent {

inline constexpr size_t kCollectedFilesMax = 64;  // open at once

class FileCollector {
 public:
  FileCollector(std::filesystem::path directory, logs::LogWriter& log)
      : directory_(std::move(directory)), log_(log) {}

  // Takes what is new, up to a bound, from as many files as there may be. True if there is more.
  bool Poll();
  // Takes all that is left, and ends unfinished lines.
  void Finish();

 private:
  struct File {
    UniqueFd fd;
    int64_t offset = 0;
    std::string partial;  // a line without its end
  };

  void FindFiles();
  bool MakeRoom();
  void SayThatThereAreTooMany();
  void EndLine(File& file);
  bool Read(File& file);

  const std::filesystem::path directory_;
  logs::LogWriter& log_;
  std::map<std::pair<dev_t, ino_t>, File> files_;  // so that renamed files stay themselves
  bool said_too_many_ = false;
};

}  // namespace muster::agent
