#include "store/writer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "store/schema.h"

namespace muster::store {

namespace {

// Bounds what a failure makes us repeat, and for how long the first waits for the last.
constexpr size_t kBatchMax = 256;

bool IsDiskFull(const Status& status) {
  return !status && status.error().code == Code::kResourceExhausted;
}

}  // namespace

Writer::Writer(std::unique_ptr<Database> database, Ballast ballast, int64_t resources)
    : database_(std::move(database)),
      ballast_(std::move(ballast)),
      counts_{.resources = resources} {
  if (const Status laid_aside = LayAside(); !laid_aside) EnterLowSpace(laid_aside.error());
  thread_ = std::thread([this] { Loop(); });
}

Writer::~Writer() {
  {
    MutexLock lock(mutex_);
    is_closing_ = true;
    something_waits_.notify_all();
  }
  thread_.join();
}

Status Writer::Submit(Write write) {
  Waiting waiting{.write = std::move(write), .status = {}, .is_done = false, .done = {}};
  MutexLock lock(mutex_);
  MUSTER_CHECK(!is_closing_);
  queue_.push_back(&waiting);
  something_waits_.notify_one();
  while (!waiting.is_done) waiting.done.wait(mutex_);
  return std::move(waiting.status);
}

Writer::Counts Writer::counts() const {
  MutexLock lock(mutex_);
  Counts counts = counts_;
  counts.waiting = int64_t(queue_.size());
  return counts;
}

void Writer::Loop() {
  for (;;) {
    std::vector<Waiting*> batch;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !is_closing_) something_waits_.wait(mutex_);
      if (queue_.empty()) return;
      const size_t size = std::min(queue_.size(), kBatchMax);
      batch.assign(queue_.begin(), queue_.begin() + ptrdiff_t(size));
      queue_.erase(queue_.begin(), queue_.begin() + ptrdiff_t(size));
    }
    Carry(batch);
    MutexLock lock(mutex_);
    for (Waiting* waiting : batch) {
      if (waiting->status) {
        counts_.written += 1;
        counts_.resources += waiting->write.resources_changed;
      }
      waiting->is_done = true;
      waiting->done.notify_one();  // under the lock: the waiter owns the condition variable
    }
  }
}

// Sets the status of every write in the batch.
void Writer::Carry(std::vector<Waiting*> batch) {
  if (is_low_on_space_) {
    const bool asks_for_room =
        std::ranges::any_of(batch, [](const Waiting* w) { return w->write.is_new_job; });
    if (asks_for_room) TryToLeaveLowSpace();
    if (is_low_on_space_) RefuseNewJobs(batch);
  }
  Status committed = Commit(batch);
  if (IsDiskFull(committed) && !is_low_on_space_) {
    EnterLowSpace(committed.error());
    RefuseNewJobs(batch);
    committed = Commit(batch);
  }
  if (committed) return;
  // One of them may be the cause; the others need not suffer for it.
  for (Waiting* waiting : batch) {
    const Status alone = batch.size() == 1 ? committed : Commit({waiting});
    if (!alone) waiting->status = alone;
  }
}

// On success each write's own status says how it went; on failure all are undone.
Status Writer::Commit(const std::vector<Waiting*>& batch) {
  if (batch.empty()) return {};
  Status status = database_->Run("BEGIN IMMEDIATE");
  for (auto it = batch.begin(); status && it != batch.end(); ++it) status = RunOne(**it);
  if (status) status = database_->Run("COMMIT");
  if (!status) {
    // SQLite itself ends a transaction after some errors.
    if (database_->InTransaction()) database_->Rollback();
    return status;
  }
  MutexLock lock(mutex_);
  counts_.commits += 1;
  return {};
}

// An error means that the whole transaction must be given up.
Status Writer::RunOne(Waiting& waiting) {
  MUSTER_TRY(database_->Run("SAVEPOINT one"));
  waiting.status = waiting.write.run(*database_);
  if (!database_->InTransaction() || IsDiskFull(waiting.status)) {
    if (!waiting.status) return waiting.status;
    return Fail(Code::kInternal, "{}: a write ended the transaction", database_->file());
  }
  if (!waiting.status) MUSTER_TRY(database_->Run("ROLLBACK TO one"));
  return database_->Run("RELEASE one");
}

Status Writer::LayAside() {
  MUSTER_TRY(ballast_.Restore());
  return FillReserve(*database_);
}

void Writer::EnterLowSpace(const Error& cause) {
  is_low_on_space_ = true;
  LogWarning("store: new jobs are refused until {} MB of disk are free: {}", ballast_.bytes() >> 20,
             cause.message);
  ballast_.Release();
  ReserveBehind(database_->file() + "-wal", ballast_.bytes() / 2);
  Status given_up = GiveUpReserve(*database_);
  // What is in the log goes to the file while there is room for it.
  if (given_up) given_up = database_->Execute("PRAGMA wal_checkpoint");
  if (!given_up) LogWarning("store: {}", given_up.error().message);
}

void Writer::TryToLeaveLowSpace() {
  if (!LayAside()) {
    ballast_.Release();
    return;
  }
  is_low_on_space_ = false;
  LogInfo("store: the disk has room again; new jobs are taken");
}

// Answers them, and takes them out of the batch.
void Writer::RefuseNewJobs(std::vector<Waiting*>& batch) {
  std::erase_if(batch, [&](Waiting* waiting) {
    if (!waiting->write.is_new_job) return false;
    waiting->status =
        Fail(Code::kResourceExhausted,
             "The disk that holds {} is full, so no new jobs are taken; free at least {} MB "
             "(jobs that exist go on)",
             database_->file(), ballast_.bytes() >> 20);
    return true;
  });
}

}  // namespace muster::store
