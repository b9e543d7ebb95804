// Several replicas' log files and the job's events as one stream in order of time, resumable.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/time.h"

namespace muster::logs {

struct LogEntry {
  Time time{};
  std::string severity;   // DEFAULT … EMERGENCY
  std::string task_name;  // "workerpool0-0" or "service"
  int attempt = 0;
  std::string message;
};

// One file, or the events: "workerpool0-0/0" (task/attempt) or "service".
struct Source {
  std::string key;
  std::string task_name;
  int attempt = 0;
  std::filesystem::path file;  // empty for "service"
};

// Where a reader stands: a position in each file, last sequence number of the events. Its text form
// is opaque to clients, small, made of unreserved URL characters, and stays valid while sources are
// added.
class Cursor {
 public:
  static Result<Cursor> Parse(std::string_view text);  // INVALID_ARGUMENT; empty text: the start
  std::string ToText() const;
  int64_t Offset(const std::string& key) const;
  void Set(const std::string& key, int64_t offset);

  // All before `offset` has been returned, but for the lines that began before it and end behind:
  // of each stream at most one, from its `pending` offset on (-1: none).
  struct Position {
    int64_t offset = 0;
    std::array<int64_t, 3> pending = {-1, -1, -1};

    bool operator==(const Position&) const = default;
  };
  Position Get(const std::string& key) const;
  void Set(const std::string& key, const Position& position);

  bool operator==(const Cursor&) const = default;

 private:
  std::map<std::string, Position> positions_;
};

// Reads the events after a sequence number: (sequence, entry), oldest first.
using ReadEvents =
    std::function<Result<std::vector<std::pair<int64_t, LogEntry>>>(int64_t after, int limit)>;

// At most `limit` entries (at least one is meant) and about `limit_bytes` of text after the cursor,
// in order of time as far as they are on disk, and moves the cursor behind them. A file's own order
// is always kept. Lines that were written in pieces are joined (up to 64 KB) and come when they are
// complete, or when their writer has gone. Where pages end changes nothing: any limits give the
// same entries in the same order of each source. A source whose file is not there yet is empty;
// damaged lines come as plain text. Memory is bounded by limit_bytes and the number of sources,
// whatever the files' sizes.
struct MergedPage {
  std::vector<LogEntry> entries;
  bool more = false;  // another read would find something now
};
Result<MergedPage> ReadMerged(const std::vector<Source>& sources, const ReadEvents& read_events,
                              Cursor& cursor, int limit, size_t limit_bytes);

}  // namespace muster::logs
