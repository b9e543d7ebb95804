#include "logs/writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/utf8.h"

namespace muster::logs {

namespace {
constexpr std::array<Stream, 3> kStreams = {Stream::kStdout, Stream::kStderr, Stream::kFile};

struct flock WholeFile(short type) {
  struct flock whole{};
  whole.l_type = type;
  whole.l_whence = SEEK_SET;
  return whole;
}
}  // namespace

bool WriterIsAlive(int fd) {
  struct flock whole = WholeFile(F_RDLCK);
  return ::fcntl(fd, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
}

LogWriter::LogWriter(UniqueFd fd, const Clock& clock) : fd_(std::move(fd)), clock_(clock) {
  struct flock whole = WholeFile(F_WRLCK);
  ::fcntl(fd_.get(), F_OFD_SETLK, &whole);
  struct stat info{};
  if (::fstat(fd_.get(), &info) == 0) size_bytes_ = info.st_size;
}

size_t LogWriter::IndexOf(Stream stream) {
  return size_t(std::ranges::find(kStreams, stream) - kStreams.begin());
}

// Never goes back, so that a file's records are in order.
Time LogWriter::Now() {
  latest_ = std::max(latest_, clock_.Now());
  return latest_;
}

void LogWriter::Put(Stream stream, Partial& partial, Time now, bool continues,
                    std::string_view text) {
  AppendRecord(out_, now, stream, continues, text);
  out_text_bytes_ += int64_t(text.size());
  partial.is_open = continues;
}

// `rest` is a line's end, without newline; its beginning may be waiting.
void LogWriter::PutLine(Stream stream, Partial& partial, Time now, std::string_view rest) {
  if (partial.text.empty() && rest.size() <= kMaxTextBytes) {
    Put(stream, partial, now, false, rest);
    return;
  }
  partial.text.append(rest);
  PutFullPieces(stream, partial, now);
  Put(stream, partial, now, false, partial.text);
  partial.text.clear();
}

void LogWriter::PutFullPieces(Stream stream, Partial& partial, Time now) {
  size_t begin = 0;
  while (partial.text.size() - begin > kMaxTextBytes) {
    const std::string_view rest = std::string_view(partial.text).substr(begin);
    const size_t size = CharacterBoundary(rest, kMaxTextBytes);
    Put(stream, partial, now, true, rest.substr(0, size));
    begin += size;
  }
  if (begin > 0) partial.text.erase(0, begin);
}

void LogWriter::Write(Stream stream, std::string_view bytes) {
  if (bytes.empty()) return;
  const Time now = Now();
  Partial& partial = partials_[IndexOf(stream)];
  while (!bytes.empty()) {
    const void* newline = std::memchr(bytes.data(), '\n', bytes.size());
    if (newline == nullptr) break;
    const size_t size = size_t(static_cast<const char*>(newline) - bytes.data());
    PutLine(stream, partial, now, bytes.substr(0, size));
    bytes.remove_prefix(size + 1);
  }
  if (!bytes.empty()) {
    if (partial.text.empty()) partial.since = now;
    partial.text.append(bytes);
    if (partial.text.size() > kMaxTextBytes) {
      PutFullPieces(stream, partial, now);
      partial.since = now;
    }
  }
  Flush();
}

std::optional<Time> LogWriter::NextTick() const {
  std::optional<Time> next;
  for (const Partial& partial : partials_) {
    if (partial.text.empty()) continue;
    const Time due = partial.since + kPartialLineAge;
    next = next ? std::min(*next, due) : due;
  }
  return next;
}

void LogWriter::Tick() {
  const Time now = Now();
  for (const Stream stream : kStreams) {
    Partial& partial = partials_[IndexOf(stream)];
    if (partial.text.empty() || partial.since + kPartialLineAge > now) continue;
    // The newest state of a progress bar stays back: its redrawing may be half written.
    // (A \r at the very end may be half of \r\n.)
    const size_t redraw = partial.text.substr(0, partial.text.size() - 1).rfind('\r');
    if (redraw != std::string::npos && redraw > 0) {
      Put(stream, partial, now, false, std::string_view(partial.text).substr(0, redraw));
      partial.text.erase(0, redraw + 1);
      partial.since = now;
      continue;
    }
    Put(stream, partial, now, true, partial.text);
    partial.text.clear();
  }
  Flush();
}

void LogWriter::Finish() {
  const Time now = Now();
  for (const Stream stream : kStreams) {
    Partial& partial = partials_[IndexOf(stream)];
    if (partial.text.empty() && !partial.is_open) continue;
    PutLine(stream, partial, now, "");
  }
  Flush();
}

// Lines whose rest was lost end here, so that readers do not join them with what follows.
void LogWriter::NoteLoss(std::string& out) const {
  for (const Stream stream : kStreams) {
    if (partials_[IndexOf(stream)].is_open_on_disk) AppendRecord(out, latest_, stream, false, "");
  }
  AppendRecord(out, latest_, Stream::kStderr, false,
               fmt::format("[muster] {} bytes of output were lost here: the log could not be "
                           "written (is the disk full?)",
                           unreported_loss_));
}

// All records or, if there is no room, none of them and nothing half written: the file stays well
// formed.
void LogWriter::Flush() {
  if (out_.empty() && unreported_loss_ == 0) return;
  std::string with_notice;
  if (unreported_loss_ > 0) {
    NoteLoss(with_notice);
    with_notice += out_;
  }
  std::string_view rest = unreported_loss_ > 0 ? with_notice : out_;
  const int64_t all = int64_t(rest.size());
  bool written = true;
  while (!rest.empty()) {
    const ssize_t put = ::write(fd_.get(), rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      written = false;
      break;
    }
    rest.remove_prefix(size_t(put));
  }
  if (written) {
    size_bytes_ += all;
    unreported_loss_ = 0;
    for (Partial& partial : partials_) partial.is_open_on_disk = partial.is_open;
  } else {
    if (int64_t(rest.size()) != all) (void)!::ftruncate(fd_.get(), size_bytes_);
    dropped_bytes_ += out_text_bytes_;
    unreported_loss_ += out_text_bytes_;
    for (Partial& partial : partials_) partial.is_open = false;
  }
  out_.clear();
  out_text_bytes_ = 0;
}

}  // namespace muster::logs
