// The few things that the engine wants from Boost.Asio, whose headers stay in event_loop.cc.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace boost::asio {
class io_context;
}

namespace muster::engine {

// What was asked for is called at most once, on the event loop, and never after the Subscription
// is gone. Everything but InBackground's work runs on the loop's thread.
using Subscription = std::shared_ptr<void>;

class EventLoop {
 public:
  static constexpr int kBackgroundThreads = 4;  // so that one slow disk does not hold up the rest
  static constexpr std::chrono::seconds kCloseLimit{5};

  explicit EventLoop(boost::asio::io_context& io,
                     std::chrono::milliseconds close_limit = kCloseLimit);
  // Waits for what is in the background, but not for ever (kCloseLimit): then what has not begun is
  // dropped, and what has goes on without anybody knowing. Nothing is called any more afterwards.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Dropped if the EventLoop is destroyed before.
  void Post(std::function<void()> call);
  [[nodiscard]] Subscription After(std::chrono::milliseconds delay, std::function<void()> call);
  // A pidfd is readable when its process has ended. `fd` stays the caller's, and must stay open.
  [[nodiscard]] Subscription WhenReadable(int fd, std::function<void()> call);
  // For what may take long: `work` on one of a few threads, then `done` here. `work` must not refer
  // to anything that could be gone before it ends.
  void InBackground(std::function<void()> work, std::function<void()> done);

 private:
  struct Background;

  boost::asio::io_context& io_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  const std::chrono::milliseconds close_limit_;
  std::shared_ptr<Background> background_;  // with its threads, which may outlive this
};

}  // namespace muster::engine
