#include "server/worker_pool.h"

namespace muster::server {

WorkerPool::WorkerPool(int threads, size_t waiting_max)
    : tasks_max_(static_cast<size_t>(threads) + waiting_max) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

WorkerPool::~WorkerPool() { Stop(); }

void WorkerPool::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  threads_.clear();
}

bool WorkerPool::Post(std::function<void()> task) {
  {
    MutexLock lock(mutex_);
    if (stopping_ || tasks_ >= tasks_max_) return false;
    ++tasks_;
    queue_.push_back(std::move(task));
  }
  wake_.notify_one();
  return true;
}

void WorkerPool::Run() {
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) wake_.wait(mutex_);
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
    MutexLock lock(mutex_);
    --tasks_;
  }
}

}  // namespace muster::server
