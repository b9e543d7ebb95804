#include "agent/reporter.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <thread>

#include "base/log.h"
#include "http/client.h"

namespace muster::agent {

namespace {
using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;
using muster::v1::ReportRequest;

constexpr milliseconds kCallTimeout(3000);
constexpr milliseconds kFirstRetry(100);
constexpr milliseconds kLastRetry(5000);

enum class Outcome {
  kTaken,
  kRefused,  // for good: repeating it would change nothing
  kNoServer,
  kAgain,
};
}  // namespace

struct Reporter::Shared {
  std::string endpoint_file;
  ReportRequest identity;
  std::function<void()> on_stop;
  std::atomic<int64_t> log_size_bytes{0};

  Mutex mutex;
  std::condition_variable_any changed;
  std::deque<ReportRequest> waiting GUARDED_BY(mutex);
  bool exited_taken GUARDED_BY(mutex) = false;
  bool gave_up GUARDED_BY(mutex) = false;

  // Of the reporter's thread alone.
  std::optional<http::Client> client;
  std::string client_address;

  void Run();
  ReportRequest NextReport();
  Outcome Send(const ReportRequest& report);
  Status Connect();
};

Status Reporter::Shared::Connect() {
  MUSTER_ASSIGN(http::Endpoint endpoint, http::ReadEndpointFile(endpoint_file));
  const std::string address = endpoint.host + " " + endpoint.port;
  if (!client || address != client_address) {
    client.emplace(std::move(endpoint));
    client_address = address;
  }
  return {};
}

Outcome Reporter::Shared::Send(const ReportRequest& report) {
  if (const Status connected = Connect(); !connected) return Outcome::kNoServer;
  http::Request request;
  request.method = "POST";
  request.target = "/muster/v1/agents:report";
  if (!google::protobuf::util::MessageToJsonString(report, &request.body).ok()) {
    return Outcome::kRefused;
  }
  const auto response = client->Call(request, kCallTimeout);
  if (!response) {
    // Nobody is there, or no longer. One that is merely slow is asked again.
    const bool is_gone = response.error().code == Code::kUnavailable;
    return is_gone ? Outcome::kNoServer : Outcome::kAgain;
  }
  if (response->status != 200) {
    const Error error = http::ErrorOfResponse(*response);
    LogWarning("musterd did not take a report: {}: {}", CodeName(error.code), error.message);
    const bool is_final = error.code == Code::kNotFound || error.code == Code::kUnauthenticated ||
                          error.code == Code::kInvalidArgument;
    return is_final ? Outcome::kRefused : Outcome::kAgain;
  }
  muster::v1::ReportResponse answer;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const bool is_understood =
      google::protobuf::util::JsonStringToMessage(response->body, &answer, options).ok();
  if (is_understood && answer.stop() && !report.has_exited()) on_stop();
  return Outcome::kTaken;
}

// Waits for the next report; Alive if there is none for some time.
ReportRequest Reporter::Shared::NextReport() {
  const auto alive_at = SteadyClock::now() + kAliveInterval;
  mutex.lock();
  while (waiting.empty() && SteadyClock::now() < alive_at) changed.wait_until(mutex, alive_at);
  ReportRequest report = identity;
  if (!waiting.empty()) {
    report.MergeFrom(waiting.front());
  } else {
    report.mutable_alive()->set_log_size_bytes(log_size_bytes);
  }
  mutex.unlock();
  return report;
}

void Reporter::Shared::Run() {
  milliseconds retry = kFirstRetry;
  for (;;) {
    const ReportRequest report = NextReport();
    const Outcome outcome = Send(report);
    const bool is_done = outcome == Outcome::kTaken || outcome == Outcome::kRefused;
    mutex.lock();
    // The next Alive comes by itself.
    if (is_done && !report.has_alive()) waiting.pop_front();
    if (report.has_exited()) exited_taken = outcome == Outcome::kTaken;
    const bool is_ending = !waiting.empty() && waiting.back().has_exited();
    if (is_ending && outcome == Outcome::kNoServer) gave_up = true;
    if (report.has_exited() && outcome == Outcome::kRefused) gave_up = true;
    changed.notify_all();
    if (is_done) {
      retry = kFirstRetry;
    } else {
      const auto again_at = SteadyClock::now() + (is_ending ? kFirstRetry : retry);
      const size_t count = waiting.size();
      while (waiting.size() == count && SteadyClock::now() < again_at) {
        changed.wait_until(mutex, again_at);
      }
      retry = std::min(2 * retry, kLastRetry);
    }
    mutex.unlock();
  }
}

Reporter::Reporter(std::string endpoint_file, ReportRequest identity, std::function<void()> on_stop)
    : shared_(std::make_shared<Shared>()), log_size_bytes_(shared_->log_size_bytes) {
  shared_->endpoint_file = std::move(endpoint_file);
  shared_->identity = std::move(identity);
  shared_->on_stop = std::move(on_stop);
}

Reporter::~Reporter() = default;

void Reporter::EnsureThread() {
  if (std::exchange(has_thread_, true)) return;
  std::thread([shared = shared_] { shared->Run(); }).detach();
}

void Reporter::Started(const muster::v1::Started& started) {
  if (shared_->endpoint_file.empty()) return;
  ReportRequest report;
  *report.mutable_started() = started;
  {
    const MutexLock lock(shared_->mutex);
    shared_->waiting.push_back(std::move(report));
  }
  shared_->changed.notify_all();
  EnsureThread();
}

bool Reporter::Exited(const muster::v1::Exited& exited, milliseconds limit) {
  if (shared_->endpoint_file.empty()) return false;
  const auto deadline = SteadyClock::now() + limit;
  ReportRequest report;
  *report.mutable_exited() = exited;
  Shared& shared = *shared_;
  shared.mutex.lock();
  shared.waiting.push_back(std::move(report));
  shared.changed.notify_all();
  EnsureThread();
  while (!shared.exited_taken && !shared.gave_up && SteadyClock::now() < deadline) {
    shared.changed.wait_until(shared.mutex, deadline);
  }
  const bool taken = shared.exited_taken;
  shared.mutex.unlock();
  return taken;
}

}  // namespace muster::agent
