// Threads for work that may block (handlers, disk reads), with a bounded queue.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/thread_annotations.h"

namespace muster::server {

// Thread-safe.
class WorkerPool {
 public:
  // `waiting_max`: tasks taken beyond those that have a thread.
  WorkerPool(int threads, size_t waiting_max);
  ~WorkerPool();  // Stop

  // Runs what is queued, then joins; takes nothing more.
  void Stop() EXCLUDES(mutex_);

  // False if too many wait or the pool is stopping: the task is not taken.
  [[nodiscard]] bool Post(std::function<void()> task) EXCLUDES(mutex_);

 private:
  void Run() EXCLUDES(mutex_);

  const size_t tasks_max_;
  Mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::function<void()>> queue_ GUARDED_BY(mutex_);
  size_t tasks_ GUARDED_BY(mutex_) = 0;  // queued or running
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace muster::server
