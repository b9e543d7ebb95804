#include "store/reader_pool.h"

#include <chrono>

namespace muster::store {

Result<ReaderPool::Lease> ReaderPool::Borrow() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  MutexLock lock(mutex_);
  while (idle_.empty()) {
    if (returned_.wait_until(mutex_, deadline) == std::cv_status::timeout && idle_.empty()) {
      return Fail(Code::kUnavailable, "The store is overloaded with reads; try again");
    }
  }
  // The last one: its cache is warm.
  std::unique_ptr<Database> database = std::move(idle_.back());
  idle_.pop_back();
  return Lease(*this, std::move(database));
}

void ReaderPool::Return(std::unique_ptr<Database> database) {
  MutexLock lock(mutex_);
  idle_.push_back(std::move(database));
  returned_.notify_one();
}

}  // namespace muster::store
