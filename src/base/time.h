// Wall-clock time as the API shows it, and the clock that is passed in wherever time matters.
#pragma once

#include <chrono>
#include <string>

#include "base/error.h"

namespace muster {

// Microseconds since the Unix epoch, UTC. What the store and the logs hold.
using Duration = std::chrono::microseconds;
using Time = std::chrono::time_point<std::chrono::system_clock, Duration>;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
};

class SystemClock final : public Clock {
 public:
  Time Now() const override;
};

// Stands still until told otherwise. For tests; not thread-safe.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(Time now = Time(std::chrono::seconds(1'700'000'000))) : now_(now) {}
  Time Now() const override { return now_; }
  void Advance(Duration by) { now_ += by; }

 private:
  Time now_;
};

// "2026-11-20T17:36:26.217000Z": always six decimals, so that texts sort as times do.
std::string FormatRfc3339(Time time);
// Accepts any RFC 3339 time, with offset and up to nine decimals.
Result<Time> ParseRfc3339(std::string_view text);

inline int64_t ToMicros(Time time) { return time.time_since_epoch().count(); }
inline Time FromMicros(int64_t micros) { return Time(Duration(micros)); }

}  // namespace muster
