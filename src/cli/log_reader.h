// A job's live log, read in a thread of its own, which outlasts restarts of musterd.
//
// The thread reads server-sent events, hands them over through a bounded queue, and when the
// connection ends before the job does, connects again and goes on behind the last event it has
// (Last-Event-ID). It owns all that it touches: who stops listening need not wait for it.
//
// The stream (docs/protocol/log-stream.md): an event's data is one muster.v1.LogEntry as JSON; the
// event "end" follows the last entry of a job that has ended, "error" tells why the server ends the
// stream before that.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/api.h"

namespace muster::cli {

struct LogReaderOptions {
  std::chrono::milliseconds silence{45'000};  // with no event or comment: connect again
  std::chrono::milliseconds retry_first{100};
  std::chrono::milliseconds retry_most{5'000};
  std::chrono::milliseconds give_up{300'000};  // without a connection
};

class LogReader {
 public:
  struct Batch {
    std::vector<std::string> entries;  // JSON of each
    std::vector<std::string> notices;  // for people: musterd is gone, is back
    bool ended = false;                // the job has ended, and its log is complete
    std::optional<Error> error;        // reading has ended without that
  };

  // `job_name` is the resource's full name. An empty task name: all of the job.
  LogReader(FindServer find, const std::string& job_name, const std::string& task_name,
            const LogReaderOptions& options);
  ~LogReader();
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  int fd() const;  // readable: there is a batch to take
  Batch Take();    // never waits

 private:
  struct State;
  static void Run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

// Whether a JobState ends a job: nothing follows it.
bool IsTerminalState(std::string_view state);

}  // namespace muster::cli
