#include "engine/local/event_loop.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <deque>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/thread_annotations.h"

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
  struct Task {
    std::function<void()> work;
    std::function<void()> finished;  // called with the mutex held
  };

  Mutex mutex;
  std::condition_variable_any changed;
  std::deque<Task> waiting GUARDED_BY(mutex);
  int running GUARDED_BY(mutex) = 0;
  int threads GUARDED_BY(mutex) = 0;
  bool closing GUARDED_BY(mutex) = false;
  bool closed GUARDED_BY(mutex) = false;

  void Run() EXCLUDES(mutex) {
    mutex.lock();
    for (;;) {
      while (waiting.empty() && !closing) changed.wait(mutex);
      if (waiting.empty()) break;
      Task task = std::move(waiting.front());
      waiting.pop_front();
      ++running;
      mutex.unlock();
      task.work();
      mutex.lock();
      --running;
      if (!closed) task.finished();
      changed.notify_all();
    }
    mutex.unlock();
  }

  void Close(std::chrono::milliseconds limit) EXCLUDES(mutex) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    mutex.lock();
    closing = true;
    changed.notify_all();
    while ((!waiting.empty() || running > 0) && std::chrono::steady_clock::now() < deadline) {
      changed.wait_until(mutex, deadline);
    }
    const size_t left = waiting.size() + size_t(running);
    waiting.clear();
    closed = true;
    mutex.unlock();
    if (left > 0) LogWarning("{} clean-ups of ended replicas are not done", left);
  }
};

EventLoop::EventLoop(asio::io_context& io, std::chrono::milliseconds close_limit)
    : io_(io), close_limit_(close_limit) {}

EventLoop::~EventLoop() {
  if (background_) background_->Close(close_limit_);
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
  if (!background_) background_ = std::make_shared<Background>();
  Background& background = *background_;
  const MutexLock lock(background.mutex);
  background.waiting.push_back(
      {std::move(work), [&io = io_, weak = std::weak_ptr<int>(alive_), done = std::move(done)] {
         asio::post(io, [weak, done] {
           if (!weak.expired()) done();
         });
       }});
  if (background.threads < kBackgroundThreads) {
    ++background.threads;
    std::thread([kept = background_] { kept->Run(); }).detach();
  }
  background.changed.notify_all();
}

}  // namespace muster::engine
