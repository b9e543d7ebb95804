// Counts of what the server did, and their Prometheus text.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "control/job_control.h"

namespace muster::server {

// Thread-safe.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  enum class Door { kGrpc, kRest };
  // `method` is a name of the method table, or empty for what was none (unknown paths): clients
  // must not be able to make labels.
  void CountCall(Door door, std::string_view method, Code code, std::chrono::nanoseconds latency);

  void CountConnection(Door door);
  void CountRefused(std::string_view why);  // "silent", "tls", "crowded"
  void AddLogReaders(int change);

  // text/plain; version=0.0.4
  std::string Text(const control::JobControl::Counts& counts) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::server
