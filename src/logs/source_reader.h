// One log file's lines, joined from their pieces, one at a time.
//
// A line is returned where its last piece stands. So its position, and with it the order of lines
// and every cursor, depends on the file's bytes alone, never on when or in what portions they were
// read. A line that stays unfinished while other streams go on does not hold them up; after
// kJoinDistanceBytes it is returned as far as it is known, so that a reader never has to look back
// further than that.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/time.h"
#include "logs/merge.h"
#include "logs/record.h"

namespace muster::logs {

inline constexpr int64_t kJoinDistanceBytes = 256 * 1024;

class SourceReader {
 public:
  // A file that is not there, or is none, is empty. RESOURCE_EXHAUSTED without descriptors.
  static Result<SourceReader> Open(const Source& source, const Cursor::Position& start);

  struct Line {
    Time time{};  // of its last piece
    Entry entry;
    Cursor::Position after;
  };
  // The next line, or null if there is none (yet).
  const Line* Peek();
  // What Peek showed.
  Line Take();

  // Where to go on if nothing more is taken.
  const Cursor::Position& position() const { return position_; }
  // Peek gave up on a long stretch of damage; another reader, from position(), goes on.
  bool gave_up() const { return scanned_bytes_ > kScanBytesMax; }

 private:
  static constexpr int64_t kScanBytesMax = 16 << 20;

  struct Pending {
    int64_t start = -1;  // where its first piece stands; -1: none
    Time time{};         // of its latest piece
    std::string text;
  };

  SourceReader(UniqueFd fd, const Cursor::Position& start) : fd_(std::move(fd)), position_(start) {}

  // Bytes.
  bool Fill();
  std::optional<std::string_view> NextRawLine();
  void SkipRestOfLine();
  void GoTo(int64_t offset);

  // Lines.
  void Replay(const Cursor::Position& start);
  std::optional<Line> Read();
  std::optional<Line> TakeDistant();
  std::optional<Line> TakeRaw(int64_t begin, std::string_view raw, bool is_last);
  std::optional<Line> TakeOverlong(std::string_view beginning);
  std::optional<Line> TakeLeftovers();
  Pending* OldestPending();
  Line Release(Pending& pending);
  Time TimeOfDamage() const;
  Cursor::Position Here() const;

  UniqueFd fd_;
  std::string buffer_;
  size_t used_ = 0;            // of buffer_: taken
  int64_t offset_ = 0;         // in the file, of buffer_[used_]
  bool inside_line_ = false;   // the rest of a line is to be skipped first
  int64_t scanned_bytes_ = 0;  // since the last line was taken
  Time latest_{};              // of the records before offset_, if one was read
  std::array<Pending, 3> pending_;
  std::optional<Line> head_;
  Cursor::Position position_;
};

}  // namespace muster::logs
