// The whole server: one port, gRPC and REST behind it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "control/job_control.h"
#include "server/method_table.h"

namespace muster::server {

// Thread-safe. Threads: one loop for all REST connections, workers for handlers and for the disk
// reads of live logs, and gRPC's own.
class Server {
 public:
  struct Options {
    std::string listen = "127.0.0.1:0";  // port 0: any free one
    // Names under which people's browsers open this server, beside addresses and localhost.
    std::vector<std::string> host_names{};
    int worker_threads = 8;
    int log_threads = 2;
    size_t calls_waiting_max = 1024;  // beyond the threads; more are told to come again
    std::chrono::milliseconds drain_timeout{5000};
    // Live logs: how often a file is looked at while a job logs.
    std::chrono::milliseconds log_poll{100};
    std::chrono::milliseconds log_keep_alive{10'000};
    // A connection must say within this time which protocol it speaks.
    std::chrono::milliseconds decide_timeout{10'000};
    size_t undecided_max = 1024;
  };

  // Serves when it returns. `control` must outlive the server.
  static Result<std::unique_ptr<Server>> Start(Options options, MethodTable methods,
                                               control::JobControl& control);
  ~Server();  // Shutdown

  // Where it listens: "127.0.0.1:41234".
  std::string address() const;

  // Closes the port; live logs end, calls get up to drain_timeout, then all is closed. Idempotent.
  void Shutdown();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// All services that `control` carries.
MethodTable AllMethods(control::JobControl& control);

}  // namespace muster::server
