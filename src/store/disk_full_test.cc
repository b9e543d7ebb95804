// A disk that is full, for which a small one is mounted in a namespace of the test's own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>

#include "base/fd.h"
#include "store/store.h"
#include "store/test_jobs.h"

namespace muster::store {
namespace {

constexpr int kExitPassed = 0, kExitFailed = 1, kExitNotPermitted = 77;
constexpr int64_t kDiskBytes = int64_t{32} << 20;

// Takes all the room there is.
void Fill(const std::filesystem::path& file) {
  UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  ASSERT_TRUE(fd);
  const std::string block(4096, 'x');
  for (int64_t bytes = 0; bytes <= kDiskBytes; bytes += int64_t(block.size())) {
    if (::write(fd.get(), block.data(), block.size()) < 0) {
      ASSERT_EQ(errno, ENOSPC);
      return;
    }
  }
  FAIL() << "the disk does not fill up";
}

class DiskFullTest : public StoreTest {
 protected:
  // Runs `test` in a child that sees a small disk at directory_.
  void OnSmallDisk(const std::function<void()>& test) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      // As root, or else as the root of a user namespace.
      const bool separate =
          ::unshare(CLONE_NEWNS) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
      const std::string options = fmt::format("size={}", kDiskBytes);
      if (!separate || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount("tmpfs", directory_.c_str(), "tmpfs", 0, options.c_str()) != 0) {
        std::fprintf(stderr, "mounting a small disk: %s\n", std::strerror(errno));
        ::_exit(kExitNotPermitted);
      }
      test();
      store_.reset();
      ::_exit(HasFailure() ? kExitFailed : kExitPassed);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    if (WEXITSTATUS(status) == kExitNotPermitted) {
      GTEST_SKIP() << "this user may not mount a small disk in a namespace of its own";
    }
    EXPECT_EQ(WEXITSTATUS(status), kExitPassed);
  }

  // Creates jobs from `id` on until one is refused for lack of room; the id of that one.
  int CreateUntilRefused(int id) {
    for (; id < 20'000; ++id) {
      const Status created = store_->CreateJob(TestJob(id));
      if (created) continue;
      EXPECT_EQ(created.error().code, Code::kResourceExhausted) << created.error().message;
      EXPECT_NE(created.error().message.find("free at least 8 MB"), std::string::npos);
      return id;
    }
    ADD_FAILURE() << "none was refused";
    return id;
  }

  // Each changes the job and adds an event.
  void SaveManyTimes(int id, int times) {
    JobChange change = TestJob(id, kRunning);
    change.events = {{change.job.job_uid, 0, Time(), false, std::string(200, 'e')}};
    for (int i = 0; i < times; ++i) {
      const Status saved = store_->SaveJob(change);
      ASSERT_TRUE(saved) << i << ": " << saved.error().message;
    }
  }

  const std::filesystem::path filler_ = directory_ / "filler";
  const std::filesystem::path ballast_ = directory_ / "muster.db.ballast";
};

TEST_F(DiskFullTest, StatesAreRecordedAndNewJobsRefused) {
  OnSmallDisk([this] {
    Open();
    ASSERT_TRUE(std::filesystem::exists(ballast_));
    ASSERT_TRUE(store_->CreateJob(TestJob(1)));
    ASSERT_TRUE(store_->CreateJob(TestJob(2)));
    Fill(filler_);
    const int refused = CreateUntilRefused(3);
    EXPECT_FALSE(std::filesystem::exists(ballast_));
    Fill(filler_);           // whoever filled the disk goes on filling it
    SaveManyTimes(1, 2000);  // several times what the log has room for
    EXPECT_FALSE(store_->CreateJob(TestJob(refused)));
    ASSERT_TRUE(store_->DeleteJob(JobName(2), {"operation", "body"}));
    EXPECT_EQ(store_->GetResource(JobName(1))->state, kRunning);
    EXPECT_EQ(store_->ListResources({"customJobs", kParent, "state=JOB_STATE_RUNNING", 0, ""})
                  ->resources.size(),
              1u);

    // Room again: the ballast comes back, and new jobs with it.
    std::filesystem::remove(filler_);
    const Status recovered = store_->CreateJob(TestJob(refused));
    EXPECT_TRUE(recovered) << recovered.error().message;
    EXPECT_TRUE(std::filesystem::exists(ballast_));

    Open();
    EXPECT_EQ(store_->counts().resources, refused - 1);  // one of them is deleted
    EXPECT_EQ(store_->GetResource(JobName(1))->state, kRunning);
    EXPECT_EQ(store_->Events("uid-1", 0, 5000)->size(), 2000u);
    EXPECT_FALSE(store_->GetResource(JobName(2)));
  });
}

TEST_F(DiskFullTest, OpensOnAFullDisk) {
  OnSmallDisk([this] {
    Open();
    ASSERT_TRUE(store_->CreateJob(TestJob(1)));
    store_.reset();
    Fill(filler_);
    Open();  // a log and its index have to be made anew
    SaveManyTimes(1, 50);
    EXPECT_EQ(store_->GetResource(JobName(1))->state, kRunning);
  });
}

}  // namespace
}  // namespace muster::store
