// Connections that only read. Thread-safe.
#pragma once

#include <condition_variable>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/thread_annotations.h"
#include "store/database.h"

namespace muster::store {

class ReaderPool {
 public:
  explicit ReaderPool(std::vector<std::unique_ptr<Database>> readers) : idle_(std::move(readers)) {}

  // A connection on loan; give it back before the pool goes.
  class Lease {
   public:
    Lease(ReaderPool& pool, std::unique_ptr<Database> database)
        : pool_(&pool), database_(std::move(database)) {}
    Lease(Lease&&) = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (database_) pool_->Return(std::move(database_));
    }
    Database& operator*() const { return *database_; }
    Database* operator->() const { return database_.get(); }

   private:
    ReaderPool* pool_;
    std::unique_ptr<Database> database_;
  };

  // Waits for a free one; UNAVAILABLE if there is none for half a minute.
  Result<Lease> Borrow();

 private:
  void Return(std::unique_ptr<Database> database);

  Mutex mutex_;
  std::condition_variable_any returned_;
  std::vector<std::unique_ptr<Database>> idle_ GUARDED_BY(mutex_);
};

}  // namespace muster::store
