// The gRPC side: every method of the table through one generic service, on connections that the
// front door accepted. (So gRPC listens on no port of its own.)
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "base/fd.h"
#include "server/method_table.h"
#include "server/metrics.h"
#include "server/worker_pool.h"

namespace muster::server {

// Thread-safe.
class GrpcDoor {
 public:
  struct Parts {
    const MethodTable& methods;
    Metrics& metrics;
    WorkerPool& workers;
  };
  static constexpr int kMessageBytesMax = 32 << 20;

  static Result<std::unique_ptr<GrpcDoor>> Start(const Parts& parts);
  ~GrpcDoor();

  // A connection in the clear, nothing of it read yet.
  void Take(UniqueFd connection);

  // Takes no new calls; those that still run at the deadline are cancelled. Returns when none is
  // left; the workers must still run.
  void Shutdown(std::chrono::milliseconds deadline);

 private:
  struct Impl;
  explicit GrpcDoor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::server
