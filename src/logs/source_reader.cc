#include "logs/source_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/utf8.h"
#include "logs/writer.h"

namespace muster::logs {

namespace {
constexpr std::array<Stream, 3> kStreams = {Stream::kStdout, Stream::kStderr, Stream::kFile};
constexpr size_t kReadBytes = 64 * 1024;
// No writer makes a longer line; what is longer is damage.
constexpr size_t kRawLineBytesMax = kMaxTextBytes + 64;

size_t IndexOf(Stream stream) {
  return size_t(std::ranges::find(kStreams, stream) - kStreams.begin());
}

bool HasPending(const Cursor::Position& position) {
  return std::ranges::any_of(position.pending, [](int64_t start) { return start >= 0; });
}
}  // namespace

Result<SourceReader> SourceReader::Open(const Source& source, const Cursor::Position& start) {
  // (A FIFO in a log's place must not stall its reader.)
  UniqueFd fd(::open(source.file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
    return FailErrno(errno, source.file.string());
  }
  struct stat info{};
  const bool is_file = fd && ::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode);
  const bool has_news = is_file && (info.st_size > start.offset ||
                                    (info.st_size == start.offset && HasPending(start)));
  if (!has_news) return SourceReader(UniqueFd(), start);
  SourceReader reader(std::move(fd), start);
  reader.Replay(start);
  return reader;
}

// Reads more behind what is in the buffer; false at the end of the file.
bool SourceReader::Fill() {
  buffer_.erase(0, used_);
  used_ = 0;
  const size_t had = buffer_.size();
  buffer_.resize(had + kReadBytes);
  ssize_t got = 0;
  do {
    got = ::pread(fd_.get(), buffer_.data() + had, kReadBytes, offset_ + int64_t(had));
  } while (got < 0 && errno == EINTR);
  buffer_.resize(had + size_t(std::max<ssize_t>(got, 0)));
  return got > 0;
}

// The next line with its newline taken off; of one that is longer than any record only the
// beginning, and inside_line_ is set. The view holds until the buffer is filled again.
std::optional<std::string_view> SourceReader::NextRawLine() {
  size_t searched = 0;
  for (;;) {
    const char* begin = buffer_.data() + used_;
    const size_t held = buffer_.size() - used_;
    const void* newline =
        held > searched ? std::memchr(begin + searched, '\n', held - searched) : nullptr;
    size_t size = newline ? size_t(static_cast<const char*>(newline) - begin) : held;
    if (size > kRawLineBytesMax) {
      size = kRawLineBytesMax;
      inside_line_ = true;
    } else if (newline == nullptr) {
      searched = held;
      if (!Fill()) return std::nullopt;
      continue;
    }
    const size_t taken = inside_line_ ? size : size + 1;
    used_ += taken;
    offset_ += int64_t(taken);
    return std::string_view(begin, size);
  }
}

// Moves behind the next newline; inside_line_ stays set if there is none within reach.
void SourceReader::SkipRestOfLine() {
  while (inside_line_) {
    const size_t newline = buffer_.find('\n', used_);
    const size_t end = newline == std::string::npos ? buffer_.size() : newline + 1;
    scanned_bytes_ += int64_t(end - used_);
    offset_ += int64_t(end - used_);
    used_ = end;
    inside_line_ = newline == std::string::npos;
    if (inside_line_ && (gave_up() || !Fill())) return;
  }
}

void SourceReader::GoTo(int64_t offset) {
  buffer_.clear();
  used_ = 0;
  offset_ = offset;
  char before = '\n';
  inside_line_ = offset > 0 && ::pread(fd_.get(), &before, 1, offset - 1) == 1 && before != '\n';
}

// Collects the pieces of lines that were unfinished at `start`, and goes there.
void SourceReader::Replay(const Cursor::Position& start) {
  int64_t first = start.offset;
  for (const int64_t pending : start.pending) {
    const bool is_near = pending >= 0 && start.offset - pending <= 2 * kJoinDistanceBytes;
    if (is_near) first = std::min(first, pending);
  }
  GoTo(first);
  while (!inside_line_ && offset_ < start.offset) {
    const int64_t begin = offset_;
    const auto raw = NextRawLine();
    if (!raw) break;
    const auto record = ParseRecord(*raw);
    if (!record) continue;
    latest_ = record->time;
    const size_t stream = IndexOf(record->stream);
    const bool belongs = start.pending[stream] >= 0 && begin >= start.pending[stream];
    if (!belongs || !record->continues) continue;
    Pending& pending = pending_[stream];
    if (pending.start < 0) pending.start = begin;
    pending.time = record->time;
    if (pending.text.size() + record->text.size() <= kMaxTextBytes) pending.text += record->text;
  }
  if (offset_ != start.offset) GoTo(start.offset);
}

Cursor::Position SourceReader::Here() const {
  Cursor::Position position;
  position.offset = offset_;
  for (size_t i = 0; i < pending_.size(); ++i) position.pending[i] = pending_[i].start;
  return position;
}

const SourceReader::Line* SourceReader::Peek() {
  if (!head_ && fd_) {
    head_ = Read();
    if (!head_) {
      position_ = Here();
      fd_.Reset();  // what comes now is for another reader
    }
  }
  return head_ ? &*head_ : nullptr;
}

SourceReader::Line SourceReader::Take() {
  MUSTER_CHECK(head_.has_value());
  Line line = *std::exchange(head_, std::nullopt);
  position_ = line.after;
  scanned_bytes_ = 0;
  return line;
}

std::optional<SourceReader::Line> SourceReader::Read() {
  for (;;) {
    SkipRestOfLine();
    if (gave_up()) return std::nullopt;
    if (inside_line_) return TakeLeftovers();
    if (auto line = TakeDistant()) return line;
    const int64_t begin = offset_;
    const auto raw = NextRawLine();
    if (!raw) return TakeLeftovers();
    scanned_bytes_ += offset_ - begin;
    auto line = inside_line_ ? TakeOverlong(*raw) : TakeRaw(begin, *raw, /*is_last=*/false);
    if (line) return line;
  }
}

// The unfinished line of a stream, as far as it is known.
SourceReader::Line SourceReader::Release(Pending& pending) {
  const Stream stream = kStreams[size_t(&pending - pending_.data())];
  const Pending taken = std::exchange(pending, Pending{});
  return Line{taken.time, ToEntry(stream, taken.text), Here()};
}

SourceReader::Pending* SourceReader::OldestPending() {
  Pending* oldest = nullptr;
  for (Pending& pending : pending_) {
    if (pending.start >= 0 && (!oldest || pending.start < oldest->start)) oldest = &pending;
  }
  return oldest;
}

std::optional<SourceReader::Line> SourceReader::TakeDistant() {
  Pending* const oldest = OldestPending();
  if (!oldest || offset_ - oldest->start <= kJoinDistanceBytes) return std::nullopt;
  return Release(*oldest);
}

// `begin`: where `raw` stands. Nothing if the line goes on. `is_last`: it cannot go on.
std::optional<SourceReader::Line> SourceReader::TakeRaw(int64_t begin, std::string_view raw,
                                                        bool is_last) {
  const auto record = ParseRecord(raw);
  if (!record) {
    if (raw.empty() || is_last) return std::nullopt;
    return Line{TimeOfDamage(), Entry{"DEFAULT", ToValidUtf8(raw)}, Here()};
  }
  latest_ = record->time;
  Pending& pending = pending_[IndexOf(record->stream)];
  if (pending.start >= 0 && pending.text.size() + record->text.size() > kMaxTextBytes) {
    // First what is known of the line; this record is then read again, as the first of the rest.
    used_ -= size_t(offset_ - begin);
    offset_ = begin;
    return Release(pending);
  }
  if (record->continues && !is_last) {
    if (pending.start < 0) pending.start = begin;
    pending.time = record->time;
    pending.text += record->text;
    return std::nullopt;
  }
  if (pending.start < 0) return Line{record->time, ToEntry(record->stream, record->text), Here()};
  pending.time = record->time;
  pending.text += record->text;
  return Release(pending);
}

std::optional<SourceReader::Line> SourceReader::TakeOverlong(std::string_view beginning) {
  Line line{TimeOfDamage(), Entry{"DEFAULT", ToValidUtf8(beginning)}, {}};
  SkipRestOfLine();
  line.after = Here();
  return line;
}

// At the end of the file. If its writer has gone, what it left unfinished is all there will be.
std::optional<SourceReader::Line> SourceReader::TakeLeftovers() {
  const bool has_pending = HasPending(Here());
  if ((!has_pending && used_ == buffer_.size()) || WriterIsAlive(fd_.get())) return std::nullopt;
  if (Fill()) return Read();  // its last words
  if (used_ < buffer_.size()) {
    const int64_t begin = offset_;
    const std::string_view raw = std::string_view(buffer_).substr(used_);
    offset_ += int64_t(raw.size());
    used_ = buffer_.size();
    if (auto line = TakeRaw(begin, raw, /*is_last=*/true)) return line;
  }
  Pending* const oldest = OldestPending();
  if (oldest == nullptr) return std::nullopt;
  return Release(*oldest);
}

// Damaged lines have no time of their own: that of the record before them, else of the next one.
Time SourceReader::TimeOfDamage() const {
  if (latest_ != Time{}) return latest_;
  std::string_view rest = std::string_view(buffer_).substr(used_);
  for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    if (const auto record = ParseRecord(rest.substr(0, end))) return record->time;
    rest.remove_prefix(end + 1);
  }
  struct stat info{};
  if (::fstat(fd_.get(), &info) != 0) return Time{};
  return FromMicros(int64_t(info.st_mtim.tv_sec) * 1'000'000 + info.st_mtim.tv_nsec / 1000);
}

}  // namespace muster::logs
