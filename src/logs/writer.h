// Writes what a replica prints into its log file (record.h), as cheaply as training deserves: one
// time stamp and one system call for each piece read from a pipe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/time.h"
#include "logs/record.h"

namespace muster::logs {

// A line that is not ended within this time goes to the file as it is, to be continued; one that
// is a progress bar (redrawn with carriage returns) ends there.
inline constexpr Duration kPartialLineAge = std::chrono::seconds(1);

// Not thread-safe. Holds a lock on the file, by which readers know that more may come
// (WriterIsAlive). Never fails: what cannot be written is counted, and once there is room again a
// record says how much was lost.
class LogWriter {
 public:
  // `fd`: opened for appending, written by nobody else.
  LogWriter(UniqueFd fd, const Clock& clock);

  // Bytes as they were read, cut anywhere.
  void Write(Stream stream, std::string_view bytes);

  // To be called at NextTick(): writes unfinished lines that have waited long enough.
  void Tick();
  std::optional<Time> NextTick() const;

  // Ends unfinished lines: nothing follows on these streams.
  void Finish();

  int64_t dropped_bytes() const { return dropped_bytes_; }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  struct Partial {
    std::string text;              // after the last newline, not yet in a record
    Time since{};                  // when its first byte came
    bool is_open = false;          // the last record of this stream is to be continued
    bool is_open_on_disk = false;  // the same of what the file really holds
  };

  static size_t IndexOf(Stream stream);
  Time Now();
  void Put(Stream stream, Partial& partial, Time now, bool continues, std::string_view text);
  void PutLine(Stream stream, Partial& partial, Time now, std::string_view rest);
  void PutFullPieces(Stream stream, Partial& partial, Time now);
  void Flush();
  void NoteLoss(std::string& out) const;

  UniqueFd fd_;
  const Clock& clock_;
  Time latest_{};
  std::array<Partial, 3> partials_;
  std::string out_;             // whole records
  int64_t out_text_bytes_ = 0;  // what they carry
  int64_t size_bytes_ = 0;      // of the file, up to the last whole record
  int64_t dropped_bytes_ = 0;
  int64_t unreported_loss_ = 0;
};

// Whether a LogWriter has the file open, in any process.
bool WriterIsAlive(int fd);

}  // namespace muster::logs
