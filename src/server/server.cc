#include "server/server.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <future>
#include <thread>

#include "base/log.h"
#include "server/agent_service.h"
#include "server/front_door.h"
#include "server/grpc_door.h"
#include "server/http_door.h"
#include "server/job_service.h"
#include "server/job_view_service.h"
#include "server/metrics.h"
#include "server/operations_service.h"
#include "server/transcode/transcoder.h"
#include "server/worker_pool.h"

namespace muster::server {

namespace asio = boost::asio;

// Declared in the order of need: each part uses only those above it. Shutdown ends every coroutine
// on the loop before anything is destroyed.
struct Server::Impl {
  Impl(Options options_in, MethodTable methods_in)
      : options(std::move(options_in)),
        methods(std::move(methods_in)),
        transcoder(methods, OfficialTranscoderOptions()),
        workers(options.worker_threads, options.calls_waiting_max),
        // Each live log has at most one read waiting.
        log_workers(options.log_threads, HttpLimits().log_readers_max) {}

  // Runs on the loop, and waits for it.
  void OnLoop(const std::function<void()>& work) {
    std::promise<void> done;
    asio::post(loop, [&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }

  const Options options;
  const MethodTable methods;
  const Transcoder transcoder;
  Metrics metrics;
  asio::io_context loop{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard = asio::make_work_guard(loop);
  WorkerPool workers;
  WorkerPool log_workers;
  std::unique_ptr<GrpcDoor> grpc_door;
  std::unique_ptr<HttpDoor> http_door;
  std::unique_ptr<FrontDoor> front_door;
  std::thread loop_thread;
  std::string address;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() { Shutdown(); }

Result<std::unique_ptr<Server>> Server::Start(Options options, MethodTable methods,
                                              control::JobControl& control) {
  auto impl = std::make_unique<Impl>(std::move(options), std::move(methods));
  Impl& it = *impl;
  HttpLimits limits;
  limits.log_poll = it.options.log_poll;
  limits.log_poll_idle = std::max(limits.log_poll_idle, it.options.log_poll);
  limits.log_keep_alive = it.options.log_keep_alive;
  MUSTER_ASSIGN(it.grpc_door, GrpcDoor::Start({it.methods, it.metrics, it.workers}));
  it.http_door = std::make_unique<HttpDoor>(
      it.loop, HttpDoor::Parts{it.transcoder, control, it.metrics, it.workers, it.log_workers},
      limits, it.options.host_names);

  FrontDoor::Options door;
  door.listen = it.options.listen;
  door.decide_timeout = it.options.decide_timeout;
  door.undecided_max = it.options.undecided_max;
  door.take_grpc = [&it](UniqueFd fd) { it.grpc_door->Take(std::move(fd)); };
  door.take_http = [&it](UniqueFd fd) { it.http_door->Take(std::move(fd)); };
  door.refused = [&it](std::string_view why) { it.metrics.CountRefused(why); };
  MUSTER_ASSIGN(it.front_door, FrontDoor::Open(it.loop, std::move(door)));
  it.address = it.front_door->address();
  it.loop_thread = std::thread([&it] { it.loop.run(); });
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

std::string Server::address() const { return impl_->address; }

void Server::Shutdown() {
  Impl& it = *impl_;
  if (!it.loop_thread.joinable()) return;
  // Close the gate.
  it.OnLoop([&] {
    it.front_door->Close();
    it.http_door->Drain();
  });
  // Drain: both doors have the same time.
  const auto end = std::chrono::steady_clock::now() + it.options.drain_timeout;
  it.grpc_door->Shutdown(it.options.drain_timeout);
  size_t connections = 1;
  while (connections > 0 && std::chrono::steady_clock::now() < end) {
    it.OnLoop([&] { connections = it.http_door->connections(); });
    if (connections > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  // Destroy. The loop runs out of work when the last coroutine has seen its connection close.
  it.OnLoop([&] { it.http_door->CloseAll(); });
  it.workers.Stop();
  it.log_workers.Stop();
  it.guard.reset();
  it.loop_thread.join();
}

MethodTable AllMethods(control::JobControl& control) {
  MethodTable methods;
  AddJobService(methods, control);
  AddOperationsService(methods, control);
  AddJobViewService(methods, control);
  AddAgentService(methods, control);
  return methods;
}

}  // namespace muster::server
