#include "agent/output.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace muster::agent {

namespace {
constexpr size_t kReadBytes = 256 * 1024;
constexpr int kReadsAtOnce = 8;
// More than any pipe holds: who goes on for longer is no part of the program.
constexpr int kDrainReads = 256;
}  // namespace

bool OutputPipe::Pump() {
  static thread_local std::array<char, kReadBytes> buffer;
  for (int reads = 0; reads < kReadsAtOnce && fd_; ++reads) {
    const ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) {
      fd_.Reset();
      return false;
    }
    const std::string_view bytes(buffer.data(), size_t(got));
    log_.Write(stream_, bytes);
    if (stream_ == logs::Stream::kStderr) Keep(bytes);
    if (bytes.size() < buffer.size() / 4) return true;  // probably all; epoll tells if not
  }
  return bool(fd_);
}

void OutputPipe::Drain() {
  for (int reads = 0; reads < kDrainReads && fd_; ++reads) {
    std::array<char, 4096> probe;
    const ssize_t got = ::read(fd_.get(), probe.data(), probe.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    const std::string_view bytes(probe.data(), size_t(got));
    log_.Write(stream_, bytes);
    if (stream_ == logs::Stream::kStderr) Keep(bytes);
    if (!Pump()) break;
  }
  fd_.Reset();
}

void OutputPipe::Keep(std::string_view bytes) {
  if (bytes.size() >= kTailBytes) {
    tail_ = bytes.substr(bytes.size() - kTailBytes);
    return;
  }
  tail_ += bytes;
  if (tail_.size() > 2 * kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
}

}  // namespace muster::agent
