// A job's log as the text of a server-sent event stream:
//
//   id: 1~0-0.0_3k!workerpool0-0/0=2
//   event: log
//   data: {"timestamp":"2026-11-20T17:36:26.217Z","severity":"INFO","taskName":…,"message":…}
//
// `data` is a LogEntry as ListLogEntries has it. `id` is where a reader goes on that saw this event
// and nothing behind it: the cursor before the page it came from, and how many entries of each
// source to skip from there. That is exact, since each source's entries have a fixed order, while
// the merged order may change as late lines arrive. With so many replicas that ids grow long, only
// some events carry one, and a reader that is cut off may see those since the last one again.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "control/job_control.h"
#include "logs/merge.h"
#include "server/log_reader.h"

namespace muster::server {

struct LogStreamRequest {
  std::string job_name;
  std::string task_name;  // empty: all
  std::string position;   // an event's id or a page token; empty: the start
  int tail = 0;           // begin at the last so many entries; not with a position
};

// Appends one entry's JSON object. Caches the text of the last entry's second.
class LogEntryJson {
 public:
  void Append(std::string& out, const logs::LogEntry& entry);

 private:
  int64_t second_ = INT64_MIN;
  std::string second_text_;
};

class LogEvents {
 public:
  using SourceCounts = std::map<std::string, int64_t>;  // by source, "workerpool0-0/1"

  static constexpr int kTailMax = 10'000;
  static constexpr size_t kIdBytesMax = 200;
  static constexpr size_t kTextPerLongId = 10;  // bytes of events for each byte of id

  // INVALID_ARGUMENT for a bad position; for a replica that the job does not have, the first
  // Next().
  static Result<LogEvents> Open(control::JobControl& control, const LogStreamRequest& request);

  struct Batch {
    std::string text;       // whole events; at most about a megabyte
    bool more = false;      // there is more at once
    bool complete = false;  // the job has ended, and this was its last log
    int job_state = 0;
  };
  // Blocks for the disk; nothing new is an empty text.
  Result<Batch> Next();

 private:
  LogEvents(LogReader reader, SourceCounts skip, int tail)
      : reader_(std::move(reader)), skip_(std::move(skip)), tail_(tail) {}

  Result<Batch> NextTail();
  void AppendPage(std::string& out, const LogReader::Page& page);

  LogReader reader_;
  SourceCounts skip_;  // entries that the reader has had already
  int tail_;           // 0 once it was given
  bool task_is_checked_ = false;
  LogEntryJson json_;
};

// "event: end": nothing follows. `data` is {"state":"JOB_STATE_SUCCEEDED"}.
std::string EndEvent(int job_state);
// "event: error": the stream ends early. `data` is the error envelope.
std::string ErrorEvent(const Error& error);

}  // namespace muster::server
