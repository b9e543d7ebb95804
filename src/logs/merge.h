// Several replicas' log files and the job's events as one stream in order of time, resumable.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
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

// Where a reader stands: byte offset in each file, last sequence number of the events. Its text
// form is opaque to clients (URL-safe), small, and stable while sources are added.
class Cursor {
 public:
  static Result<Cursor> Parse(std::string_view text);  // INVALID_ARGUMENT; empty text: the start
  std::string ToText() const;
  int64_t Offset(const std::string& key) const;
  void Set(const std::string& key, int64_t offset);

 private:
  std::map<std::string, int64_t> offsets_;
};

// Reads the events after a sequence number: (sequence, entry), oldest first.
using ReadEvents =
    std::function<Result<std::vector<std::pair<int64_t, LogEntry>>>(int64_t after, int limit)>;

// At most `limit` entries and about `limit_bytes` of text after the cursor, in order of time as
// far as they are on disk, and moves the cursor behind them. Lines that were written in pieces are
// joined (up to 64 KB). Memory is bounded by limit_bytes, whatever the files' sizes.
struct MergedPage {
  std::vector<LogEntry> entries;
  bool more = false;  // another read would find something now
};
Result<MergedPage> ReadMerged(const std::vector<Source>& sources, const ReadEvents& read_events,
                              Cursor& cursor, int limit, size_t limit_bytes);

}  // namespace muster::logs
