// The format of a replica's log file: one record a line,
//
//   1763664000123456 O text of the line\n
//
// microseconds since the epoch (16 digits), a space, the stream, a space, the bytes as written.
// Stream: O standard output, E standard error, F a collected file; lower case (o, e, f): the line
// goes on in the next record of the same stream (it was longer than kMaxTextBytes, or its writer
// paused in the middle of it). A file's offsets at record boundaries are stable cursors. A last
// line without \n is a record still being written. docs/protocol/log-files.md tells the same to
// people.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace muster::logs {

inline constexpr size_t kMaxTextBytes = 64 * 1024;

enum class Stream : char { kStdout = 'O', kStderr = 'E', kFile = 'F' };

struct Record {
  Time time{};
  Stream stream = Stream::kStdout;
  bool continues = false;  // the line goes on
  std::string_view text;   // into the caller's buffer, without newline
};

void AppendRecord(std::string& out, Time time, Stream stream, bool continues,
                  std::string_view text);

// One line without its newline; nothing if it is no record (a damaged file).
std::optional<Record> ParseRecord(std::string_view line);

// stdout → INFO, stderr → ERROR; a one-line JSON object with `severity` and `message` is lifted
// (contract §4).
struct Entry {
  std::string severity;
  std::string message;
};
Entry ToEntry(Stream stream, std::string_view text);

}  // namespace muster::logs
