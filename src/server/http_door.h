// The REST side: HTTP/1.1 with keep-alive, for the transcoder's methods, the live logs,
// /healthz and /metrics.
//
// One coroutine a connection, all on one loop, which only moves bytes; parsing, handlers and disk
// reads run on worker threads. A client that is slow, silent or gone costs a socket until its
// deadline, never a thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "control/job_control.h"
#include "server/metrics.h"
#include "server/transcode/transcoder.h"
#include "server/worker_pool.h"

namespace boost::asio {
class io_context;
}

namespace muster::server {

struct HttpLimits {
  size_t body_bytes_max = 32 << 20;
  size_t bodies_bytes_max = 256 << 20;  // of all requests that are being read or answered
  size_t header_bytes_max = 64 << 10;
  size_t connections_max = 16'384;
  size_t log_readers_max = 8'192;
  std::chrono::milliseconds idle_timeout{75'000};      // between requests
  std::chrono::milliseconds header_timeout{15'000};    // for all of a request's header
  std::chrono::milliseconds progress_timeout{30'000};  // for some bytes of a body, or to take some
  // Live logs: how often the files are looked at, at first and once nothing has come for a while.
  std::chrono::milliseconds log_poll{100};
  std::chrono::milliseconds log_poll_idle{500};
  std::chrono::milliseconds log_keep_alive{10'000};
};

// Lives on the loop: created before it runs, used on it, destroyed after it has stopped.
class HttpDoor {
 public:
  struct Parts {
    const Transcoder& transcoder;
    control::JobControl& control;
    Metrics& metrics;
    WorkerPool& workers;      // handlers
    WorkerPool& log_workers;  // disk reads of live logs, which must not hold up handlers
  };

  // `own_names`: see browser_guard.h.
  HttpDoor(boost::asio::io_context& loop, Parts parts, HttpLimits limits,
           std::vector<std::string> own_names);
  ~HttpDoor();

  // Serves the connection until it ends.
  void Take(UniqueFd connection);

  // Idle connections are closed, live logs end, requests that are being answered get their answer
  // and then the connection is closed.
  void Drain();
  // Closes what is left.
  void CloseAll();
  size_t connections() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::server
