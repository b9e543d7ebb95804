// Work on another thread, awaited from a coroutine on the loop. Internal to the doors.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "server/worker_pool.h"

namespace muster::server {

// What `work` returns, or nothing if the pool's queue is full. `work` runs on one of the pool's
// threads while the coroutine waits; the pool must be joined before the loop is destroyed.
template <typename Work>
boost::asio::awaitable<std::optional<std::invoke_result_t<Work&>>> RunOn(WorkerPool& pool,
                                                                         Work work) {
  namespace asio = boost::asio;
  const asio::any_io_executor loop = co_await asio::this_coro::executor;
  std::optional<std::invoke_result_t<Work&>> value;
  auto start = [&pool, &work, &value, &loop](auto handler) {
    auto resume = std::make_shared<decltype(handler)>(std::move(handler));
    auto guard = std::make_shared<asio::executor_work_guard<asio::any_io_executor>>(loop);
    const bool taken = pool.Post([&work, &value, &loop, resume, guard]() mutable {
      value.emplace(work());
      // The coroutine's frame, and with it `loop`, may be gone once the handler is posted.
      const asio::any_io_executor executor = loop;
      auto keep = std::move(guard);
      asio::post(executor, [resume = std::move(resume)] { std::move (*resume)(); });
    });
    if (!taken) asio::post(loop, [resume] { std::move (*resume)(); });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(start, asio::use_awaitable);
  co_return value;
}

}  // namespace muster::server
