#include "engine/local/event_loop.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <utility>

namespace muster::engine {

namespace asio = boost::asio;

namespace {
struct Timer {
  asio::steady_timer timer;
  std::function<void()> call;
};

struct Readable {
  asio::posix::stream_descriptor descriptor;
  std::function<void()> call;
  ~Readable() { descriptor.release(); }
};

// The handler that Asio keeps: what it waits for is owned by the Subscription alone.
template <typename Waiting>
auto Handler(const std::shared_ptr<Waiting>& waiting) {
  return [weak = std::weak_ptr<Waiting>(waiting)](const boost::system::error_code& error) {
    auto held = weak.lock();
    if (error || !held) return;
    const auto call = std::exchange(held->call, nullptr);
    // The owner may drop its Subscription in the call and close the descriptor: it must be gone
    // from the reactor by then, for the number may be in use again before the call returns.
    held.reset();
    if (call) call();
  };
}
}  // namespace

struct EventLoop::Background {
  asio::thread_pool pool{1};
};

EventLoop::EventLoop(asio::io_context& io) : io_(io) {}

EventLoop::~EventLoop() {
  if (background_) background_->pool.join();
  alive_.reset();
}

void EventLoop::Post(std::function<void()> call) {
  asio::post(io_, [weak = std::weak_ptr<int>(alive_), call = std::move(call)] {
    if (!weak.expired()) call();
  });
}

Subscription EventLoop::After(std::chrono::milliseconds delay, std::function<void()> call) {
  auto timer = std::make_shared<Timer>(asio::steady_timer(io_, delay), std::move(call));
  timer->timer.async_wait(Handler(timer));
  return timer;
}

Subscription EventLoop::WhenReadable(int fd, std::function<void()> call) {
  auto readable =
      std::make_shared<Readable>(asio::posix::stream_descriptor(io_, fd), std::move(call));
  readable->descriptor.async_wait(asio::posix::stream_descriptor::wait_read, Handler(readable));
  return readable;
}

void EventLoop::InBackground(std::function<void()> work, std::function<void()> done) {
  if (!background_) background_ = std::make_unique<Background>();
  asio::post(background_->pool, [&io = io_, weak = std::weak_ptr<int>(alive_),
                                 work = std::move(work), done = std::move(done)] {
    work();
    asio::post(io, [weak, done] {
      if (!weak.expired()) done();
    });
  });
}

}  // namespace muster::engine
