#include "engine/local/event_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

namespace muster::engine {
namespace {

constexpr std::chrono::seconds kDeadline{30};

TEST(EventLoop, OneSlowWorkHoldsUpNoOther) {
  boost::asio::io_context io;
  EventLoop loop(io);
  std::promise<void> quick_is_done;
  bool slow_is_done = false;
  loop.InBackground([future = quick_is_done.get_future().share()] { future.wait_for(kDeadline); },
                    [&] { slow_is_done = true; });
  loop.InBackground([] {}, [&] { quick_is_done.set_value(); });
  const auto deadline = std::chrono::steady_clock::now() + kDeadline / 2;
  while (!slow_is_done && std::chrono::steady_clock::now() < deadline) {
    io.restart();
    io.run_one_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(slow_is_done);
}

TEST(EventLoop, ClosingFinishesWhatWaits) {
  boost::asio::io_context io;
  std::atomic<int> count = 0;
  bool called = false;
  {
    EventLoop loop(io);
    for (int i = 0; i < 100; ++i) loop.InBackground([&] { ++count; }, [&] { called = true; });
  }
  EXPECT_EQ(count, 100);
  io.poll();
  EXPECT_FALSE(called);
}

TEST(EventLoop, ClosingDoesNotWaitForEver) {
  boost::asio::io_context io;
  struct Shared {
    std::promise<void> release;
    std::shared_future<void> released = release.get_future().share();
    std::atomic<int> ended = 0;
  };
  const auto shared = std::make_shared<Shared>();
  {
    EventLoop loop(io, std::chrono::milliseconds(20));
    for (int i = 0; i < 2 * EventLoop::kBackgroundThreads; ++i) {
      loop.InBackground(
          [shared] {
            shared->released.wait();
            ++shared->ended;
          },
          [] { FAIL() << "called after the end"; });
    }
  }
  EXPECT_EQ(shared->ended, 0);
  shared->release.set_value();
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  // Those that had begun end; those that waited were dropped.
  while (shared.use_count() > 1 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(shared.use_count(), 1);
  EXPECT_LE(shared->ended, EventLoop::kBackgroundThreads);
  io.poll();
}

}  // namespace
}  // namespace muster::engine
