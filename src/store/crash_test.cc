// kill -9 of a writing process loses nothing that it was told is durable, and leaves no halves.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "store/database.h"
#include "store/store.h"
#include "store/test_jobs.h"

namespace muster::store {
namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 25;

// What was acknowledged: written to a pipe whole, since it is small.
struct Acknowledged {
  int id = 0;
  enum Step : int { kCreated = 1, kSaved = 2, kDeleted = 3 } step = kCreated;
};

// Creates, changes and deletes jobs until it is killed; each step leaves one event more.
void WriteForever(Store& store, int first_id, int pipe) {
  for (int id = first_id;; id += kThreads) {
    const auto acknowledge = [&](Acknowledged::Step step) {
      const Acknowledged message{id, step};
      return ::write(pipe, &message, sizeof message) == ssize_t(sizeof message);
    };
    JobChange change = TestJob(id);
    change.resource->labels = {{"k", "v"}};
    change.events = {{change.job.job_uid, 0, Time(), false, "created"}};
    if (!store.CreateJob(change) || !acknowledge(Acknowledged::kCreated)) return;
    change.resource->state = kRunning;
    change.attempts = {{change.job.job_uid, 0, 0, 1, "view", "launch"}};
    if (!store.SaveJob(change) || !acknowledge(Acknowledged::kSaved)) return;
    if (id % 3 == 0) {
      if (!store.DeleteJob(JobName(id), {JobName(id) + "/operations/1", "done"})) return;
      if (!acknowledge(Acknowledged::kDeleted)) return;
    }
  }
}

[[noreturn]] void Child(const std::filesystem::path& file, int first_id, int pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto store = Store::Open(file);
  if (!store) ::_exit(3);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] { WriteForever(**store, first_id + thread, pipe); });
  }
  for (std::thread& thread : threads) thread.join();
  ::_exit(4);  // only if a write failed
}

class CrashTest : public StoreTest {
 protected:
  // Runs a child, kills it behind its `acknowledgements`th message, and notes all it sent.
  void RunAndKill(int first_id, int acknowledgements) {
    std::array<int, 2> ends = {-1, -1};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    UniqueFd from(ends[0]), to(ends[1]);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) Child(file_, first_id, to.get());
    to.Reset();
    Acknowledged message;
    for (int received = 0;; ++received) {
      if (received == acknowledgements) {
        ASSERT_EQ(::kill(child, SIGKILL), 0);
      }
      // Behind the kill, what is still in the pipe; the test's own deadline ends a child that
      // hangs.
      const ssize_t got = ::read(from.get(), &message, sizeof message);
      if (got == 0) break;
      ASSERT_EQ(got, ssize_t(sizeof message));
      acknowledged_[message.id] = message.step;
      last_id_ = std::max(last_id_, message.id);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);
  }

  void CheckNothingIsLost() {
    for (const auto& [id, step] : acknowledged_) {
      const auto resource = store_->GetResource(JobName(id));
      const auto operation = store_->GetOperation(JobName(id) + "/operations/1");
      EXPECT_EQ(resource.has_value(), !operation.has_value()) << id;
      if (step == Acknowledged::kDeleted) {
        EXPECT_FALSE(resource) << id;
        continue;
      }
      // The step behind the acknowledged one may have been committed too.
      if (!resource) {
        EXPECT_TRUE(step == Acknowledged::kSaved && id % 3 == 0) << id;
        continue;
      }
      if (step == Acknowledged::kSaved) {
        EXPECT_EQ(resource->state, kRunning) << id;
      }
    }
  }

  // Each change of a job is there as a whole.
  void CheckNoHalves() {
    ListQuery query = {"customJobs", kParent, "", 1000, ""};
    do {
      const auto page = store_->ListResources(query);
      ASSERT_TRUE(page) << page.error().message;
      for (const Resource& resource : page->resources) {
        const bool saved = resource.state == kRunning;
        const auto job = store_->GetJob(resource.name);
        ASSERT_TRUE(job) << resource.name;
        EXPECT_EQ(store_->Events(job->job_uid, 0, 10)->size(), saved ? 2u : 1u) << resource.name;
        EXPECT_EQ(store_->Attempts(job->job_uid)->size(), saved ? 1u : 0u) << resource.name;
        EXPECT_EQ(resource.labels.size(), 1u);
      }
      query.page_token = page->next_page_token;
    } while (!query.page_token.empty());
  }

  void CheckFile() {
    const auto database = Database::Open(file_, Database::Mode::kReader);
    ASSERT_TRUE(database);
    auto check = (*database)->Query("SELECT * FROM pragma_integrity_check");
    ASSERT_TRUE(*check->Step());
    EXPECT_EQ(check->Text(0), "ok");
    auto orphans = (*database)->Query("SELECT count(*) FROM pragma_foreign_key_check");
    ASSERT_TRUE(*orphans->Step());
    EXPECT_EQ(orphans->Int(0), 0);
  }

  std::map<int, Acknowledged::Step> acknowledged_;
  int last_id_ = 0;
};

TEST_F(CrashTest, KillLosesNothingAcknowledged) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < kRounds && !HasFatalFailure(); ++round) {
    // Ids far enough apart that no two rounds share one that was written but not acknowledged.
    RunAndKill(last_id_ + 1000, int(random() % 150));
    if (HasFatalFailure()) return;
    if (round % 2 == 1) Open();  // else the next child opens what the kill left behind
    store_.reset();              // no connection may cross a fork
  }
  Open();
  EXPECT_GT(acknowledged_.size(), size_t(kRounds));
  CheckNothingIsLost();
  CheckNoHalves();
  CheckFile();
}

}  // namespace
}  // namespace muster::store
