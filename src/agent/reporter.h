// Tells musterd how the replica fares, from a thread of its own, so that a slow or missing musterd
// never holds up supervision.
//
// Thread rule: the public methods belong to the supervisor's thread. The first call of Started or
// Exited starts the reporter's: nothing may fork from then on, and nothing needs to, since the
// program runs by then. It is never joined: the agent ends with _exit.
#pragma once

#include <muster/v1/agent.pb.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/thread_annotations.h"

namespace muster::agent {

inline constexpr std::chrono::seconds kAliveInterval(10);

class Reporter {
 public:
  // `identity` holds the attempt's id and token. `on_stop` is called on the reporter's thread when
  // musterd answers that the replica is to end.
  Reporter(std::string endpoint_file, muster::v1::ReportRequest identity,
           std::function<void()> on_stop);
  ~Reporter();

  void Started(const muster::v1::Started& started);
  void SetLogSize(int64_t bytes) { log_size_bytes_ = bytes; }

  // Waits until musterd has taken it, but at most `limit`, and not if musterd is not there: it
  // reads report.json anyway. True if it was taken.
  bool Exited(const muster::v1::Exited& exited, std::chrono::milliseconds limit);

 private:
  struct Shared;
  void EnsureThread();

  std::shared_ptr<Shared> shared_;  // with the thread, which may outlive this
  std::atomic<int64_t>& log_size_bytes_;
  bool has_thread_ = false;
};

}  // namespace muster::agent
