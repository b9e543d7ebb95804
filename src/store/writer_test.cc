#include "store/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <thread>
#include <vector>

#include "store/schema.h"
#include "store/test_jobs.h"

namespace muster::store {
namespace {

using testing::HasSubstr;

constexpr int64_t kBallastBytes = 1 << 20;

class WriterTest : public StoreTest {
 protected:
  WriterTest() {
    auto database = Database::Open(file_, Database::Mode::kWriter);
    EXPECT_TRUE(database && Migrate(**database, Migrations()));
    EXPECT_TRUE((*database)->Execute("CREATE TABLE t (a INTEGER UNIQUE)"));
    writer_.emplace(std::move(*database), Ballast(ballast_file_, kBallastBytes), 0);
  }

  static Write Insert(int64_t number) {
    return {.run = [number](Database& database) {
      return database.Run("INSERT INTO t VALUES (?)", number);
    }};
  }

  // Keeps the writer's thread busy until `end` is counted down; returns once it is.
  std::thread Occupy(std::latch& end) {
    std::latch begun(1);
    std::thread thread([this, &begun, &end] {
      EXPECT_TRUE(writer_->Submit({.run = [&](Database&) -> Status {
        begun.count_down();
        end.wait();
        return {};
      }}));
    });
    begun.wait();
    return thread;
  }

  void WaitUntilWaiting(int64_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (writer_->counts().waiting < count) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::yield();
    }
  }

  std::vector<int64_t> Numbers() {
    auto reader = Database::Open(file_, Database::Mode::kReader);
    EXPECT_TRUE(reader);
    auto rows = (*reader)->Query("SELECT a FROM t ORDER BY a");
    std::vector<int64_t> numbers;
    while (*rows->Step()) numbers.push_back(rows->Int(0));
    return numbers;
  }

  const std::filesystem::path ballast_file_ = directory_ / "ballast";
  std::optional<Writer> writer_;
};

TEST_F(WriterTest, WhatWaitsIsOneTransactionAndFailuresStayAlone) {
  std::latch hold(1);
  std::thread first = Occupy(hold);
  std::vector<std::thread> threads;
  threads.reserve(20);
  std::vector<Status> statuses(20);
  for (int64_t i = 0; i < 20; ++i) {
    // Five numbers come twice; the second of each fails.
    threads.emplace_back([&, i] { statuses[size_t(i)] = writer_->Submit(Insert(i % 15)); });
  }
  WaitUntilWaiting(20);
  hold.count_down();
  first.join();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::ranges::count_if(statuses, [](const Status& s) { return s.has_value(); }), 15);
  for (const Status& status : statuses) {
    EXPECT_TRUE(status || status.error().code == Code::kAlreadyExists);
  }
  EXPECT_EQ(writer_->counts().commits, 2);
  EXPECT_EQ(writer_->counts().written, 16);
  EXPECT_EQ(Numbers().size(), 15u);
}

TEST_F(WriterTest, AFailedWriteUndoesAllItDid) {
  const Status status = writer_->Submit({.run = [](Database& database) -> Status {
    MUSTER_TRY(database.Run("INSERT INTO t VALUES (1)"));
    return Fail(Code::kAborted, "changed its mind");
  }});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kAborted);
  EXPECT_TRUE(Numbers().empty());
}

// A write that finds the disk full until the ballast is gone.
TEST_F(WriterTest, AFullDiskCostsTheBallastAndThenNewJobsOnly) {
  ASSERT_EQ(std::filesystem::file_size(ballast_file_), uintmax_t(kBallastBytes));
  const auto needs_room = [&](Database& database) -> Status {
    MUSTER_TRY(database.Run("INSERT INTO t VALUES (1)"));
    if (std::filesystem::exists(ballast_file_)) return Fail(Code::kResourceExhausted, "disk full");
    return {};
  };
  EXPECT_TRUE(writer_->Submit({.run = needs_room}));
  EXPECT_EQ(Numbers(), std::vector<int64_t>{1});  // once, though it ran twice

  // There is room for the ballast: the next new job brings it back.
  Write new_job = Insert(2);
  new_job.is_new_job = true;
  EXPECT_TRUE(writer_->Submit(new_job));
  EXPECT_TRUE(std::filesystem::exists(ballast_file_));

  // There is none: something is in the ballast's place.
  EXPECT_FALSE(writer_->Submit({.run = [&](Database&) -> Status {
    std::filesystem::remove(ballast_file_);
    std::filesystem::create_directory(ballast_file_);
    return Fail(Code::kResourceExhausted, "disk full");
  }}));
  Write refused = Insert(3);
  refused.is_new_job = true;
  const Status status = writer_->Submit(refused);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kResourceExhausted);
  EXPECT_THAT(status.error().message, HasSubstr("free at least 1 MB"));
  EXPECT_TRUE(writer_->Submit(Insert(4)));
  EXPECT_EQ(Numbers(), (std::vector<int64_t>{1, 2, 4}));
  std::filesystem::remove(ballast_file_);
  EXPECT_TRUE(writer_->Submit(refused));
}

// One write too large for the disk does not take the others with it.
TEST_F(WriterTest, OneThatNeverFitsFailsAlone) {
  std::latch hold(1);
  std::vector<std::thread> threads;
  threads.push_back(Occupy(hold));
  for (const int64_t number : {1, 2, 3}) {
    threads.emplace_back([&, number] { EXPECT_TRUE(writer_->Submit(Insert(number))); });
  }
  threads.emplace_back([&] {
    EXPECT_FALSE(writer_->Submit(
        {.run = [](Database&) -> Status { return Fail(Code::kResourceExhausted, "too large"); }}));
  });
  WaitUntilWaiting(4);
  hold.count_down();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Numbers(), (std::vector<int64_t>{1, 2, 3}));
}

}  // namespace
}  // namespace muster::store
