// The one thread that writes to the database.
//
// Whatever waits is committed in one transaction, so that many writers share one fsync; within it
// each write has a savepoint, so that one that fails undoes itself alone. Submit() returns once the
// write is durable.
//
// A full disk: the transaction is undone, what was laid aside is given up, and the transaction run
// again. From then on new jobs are refused until there is room for the ballast; everything else is
// written as before. Two things are laid aside, since whoever fills the disk goes on filling it:
// the ballast (ballast.h), half of which is claimed for the write-ahead log at once, and free pages
// within the database (schema.h), which nobody else can take.
//
// Invariants: 1. a write is run again only after all it did was undone; 2. no write is answered
// before the transaction that holds it has been committed or undone.
#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/thread_annotations.h"
#include "store/ballast.h"
#include "store/database.h"

namespace muster::store {

struct Write {
  // Runs on the writer's thread, perhaps several times. Must not begin or end transactions.
  std::function<Status(Database&)> run;
  bool is_new_job = false;    // refused while the disk is full
  int resources_changed = 0;  // +1 or -1, if it succeeds
};

class Writer {
 public:
  // `resources`: how many the database has now.
  Writer(std::unique_ptr<Database> database, Ballast ballast, int64_t resources);
  // Nothing may be waiting in Submit().
  ~Writer();

  // Any thread but the writer's own.
  Status Submit(Write write);

  struct Counts {
    int64_t resources = 0;
    int64_t commits = 0;
    int64_t written = 0;
    int64_t waiting = 0;  // writes that the next transactions will hold
  };
  Counts counts() const;

 private:
  struct Waiting {
    Write write;
    Status status;
    bool is_done = false;
    std::condition_variable_any done;
  };

  // Only the writer's thread runs these.
  void Loop();
  void Carry(std::vector<Waiting*> batch);
  Status Commit(const std::vector<Waiting*>& batch);
  Status RunOne(Waiting& waiting);
  Status LayAside();
  void EnterLowSpace(const Error& cause);
  void TryToLeaveLowSpace();
  void RefuseNewJobs(std::vector<Waiting*>& batch);

  // The writer's thread's own.
  const std::unique_ptr<Database> database_;
  Ballast ballast_;
  bool is_low_on_space_ = false;

  mutable Mutex mutex_;
  std::condition_variable_any something_waits_;
  std::deque<Waiting*> queue_ GUARDED_BY(mutex_);
  bool is_closing_ GUARDED_BY(mutex_) = false;
  Counts counts_ GUARDED_BY(mutex_);

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace muster::store
