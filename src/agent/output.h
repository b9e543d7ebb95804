// One of the program's output pipes.
#pragma once

#include <string>
#include <string_view>

#include "base/fd.h"
#include "logs/writer.h"

namespace muster::agent {

class OutputPipe {
 public:
  // What ExitDetail gets to see.
  static constexpr size_t kTailBytes = 32 * 1024;

  OutputPipe(logs::Stream stream, logs::LogWriter& log) : stream_(stream), log_(log) {}

  void Open(UniqueFd fd) { fd_ = std::move(fd); }
  int fd() const { return fd_.get(); }

  // Takes what is there, up to a bound, so that everybody gets a turn. False, and closed, at the
  // end of the stream.
  bool Pump();
  // Takes what is left of a program that has ended. Does not wait for strangers that may still
  // hold the pipe open.
  void Drain();

  std::string_view tail() const { return tail_; }

 private:
  void Keep(std::string_view bytes);

  const logs::Stream stream_;
  logs::LogWriter& log_;
  UniqueFd fd_;
  std::string tail_;
};

}  // namespace muster::agent
