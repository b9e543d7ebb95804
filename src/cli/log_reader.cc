#include "cli/log_reader.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <thread>

#include "base/fd.h"
#include "base/thread_annotations.h"
#include "cli/duration.h"

namespace muster::cli {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

constexpr size_t kQueueBytesMax = 4 << 20;

}  // namespace

// Invariants: once stop is set, nothing is added; ended or error is set last.
struct LogReader::State {
  FindServer find;
  std::string job_name;
  std::string target;
  LogReaderOptions options;
  UniqueFd wake{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};

  Mutex mutex;
  std::condition_variable_any changed;  // space in the queue, or stop
  Batch batch GUARDED_BY(mutex);
  size_t queued_bytes GUARDED_BY(mutex) = 0;
  bool stop GUARDED_BY(mutex) = false;

  // The thread's own.
  std::string last_event_id;
  bool got_event = false;  // from the present connection
  bool got_end = false;
  std::optional<Error> stream_error;  // why the server ended the present stream early
  std::optional<steady_clock::time_point> lost_since;  // until musterd has answered again
  bool told_lost = false;

  // False: stop.
  bool Add(std::string entry) {
    MutexLock lock(mutex);
    while (!stop && queued_bytes >= kQueueBytesMax) changed.wait(mutex);
    if (stop) return false;
    queued_bytes += entry.size();
    batch.entries.push_back(std::move(entry));
    Wake();
    return true;
  }

  void Notice(std::string text) {
    MutexLock lock(mutex);
    batch.notices.push_back(std::move(text));
    Wake();
  }

  void End(std::optional<Error> error) {
    MutexLock lock(mutex);
    batch.ended = !error.has_value();
    batch.error = std::move(error);
    Wake();
  }

  bool Stopped() {
    MutexLock lock(mutex);
    return stop;
  }

  // False: stop.
  bool Pause(std::chrono::milliseconds time) {
    const auto deadline = steady_clock::now() + time;
    MutexLock lock(mutex);
    while (!stop && steady_clock::now() < deadline) changed.wait_until(mutex, deadline);
    return !stop;
  }

  void Wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake.get(), &one, sizeof one);
  }

  void Found() {
    lost_since.reset();
    if (told_lost) Notice("musterd is back.");
    told_lost = false;
  }

  bool OnEvent(const http::Client::ServerEvent& event) {
    Found();
    got_event = true;
    if (!event.id.empty()) last_event_id = event.id;
    if (event.event == "end") {
      got_end = true;
      return false;
    }
    if (event.event == "error") {
      const json envelope = json::parse(event.data, nullptr, false);
      const json& code = ValueAt(ValueAt(envelope, "error"), "code");
      const int status = code.is_number_integer() ? code.get<int>() : 500;
      stream_error = http::ErrorOfResponse({.status = status, .body = event.data});
      return false;
    }
    return event.data.empty() ? !Stopped() : Add(event.data);
  }

  // One connection. Something: reading is over (OK: the log is complete).
  std::optional<Status> ReadOnce() {
    Api api(find);
    if (lost_since) {  // a stream may stay silent for long, so ask for something that answers
      const Result<json> job = api.Get("/v1/" + job_name);
      if (!job && job.error().code == Code::kNotFound) return std::unexpected(job.error());
      if (!job) return std::nullopt;
      Found();
    }
    const Result<http::Endpoint> endpoint = find();
    if (!endpoint) return std::nullopt;
    http::Client client(*endpoint);
    http::Request request;
    request.target = target;
    request.headers_accept = "text/event-stream";
    request.last_event_id = last_event_id;
    got_event = got_end = false;
    stream_error.reset();
    const Result<http::Response> response = client.Stream(
        request, options.silence, [this](const auto& event) { return OnEvent(event); });
    if (got_end) return Status();
    if (stream_error && stream_error->code == Code::kNotFound) {
      return std::unexpected(*stream_error);
    }
    if (stream_error) return std::nullopt;
    if (!response || response->status >= 500) return std::nullopt;
    if (response->status != 200) return std::unexpected(http::ErrorOfResponse(*response));
    // A stream that ended in order, without saying that the job has: it may have all the same.
    if (got_event) return std::nullopt;
    const Result<json> job = api.Get("/v1/" + job_name);
    if (job && IsTerminalState(TextAt(*job, "state"))) return Status();
    return std::nullopt;
  }

  Error GaveUp() const {
    return Error{
        Code::kUnavailable,
        fmt::format("musterd has not answered for {}. The job itself goes on. Once musterd "
                    "runs again, watch it with: muster custom-jobs stream-logs {}",
                    FormatDuration(options.give_up), job_name)};
  }
};

void LogReader::Run(const std::shared_ptr<State>& state) {
  const LogReaderOptions& options = state->options;
  auto delay = options.retry_first;
  while (!state->Stopped()) {
    const bool was_lost = state->lost_since.has_value();
    if (const std::optional<Status> over = state->ReadOnce()) {
      state->End(*over ? std::nullopt : std::optional(over->error()));
      return;
    }
    const auto now = steady_clock::now();
    if (!state->lost_since) {
      state->lost_since = now;
      delay = options.retry_first;
    } else if (now - *state->lost_since > options.give_up) {
      state->End(state->GaveUp());
      return;
    } else if (was_lost && !state->told_lost) {
      state->told_lost = true;
      state->Notice(fmt::format("musterd does not answer; trying again for {}. The job goes on.",
                                FormatDuration(options.give_up)));
    }
    if (!state->Pause(delay)) return;
    delay = std::min(delay * 2, options.retry_most);
  }
}

LogReader::LogReader(FindServer find, const std::string& job_name, const std::string& task_name,
                     const LogReaderOptions& options)
    : state_(std::make_shared<State>()) {
  state_->find = std::move(find);
  state_->job_name = job_name;
  state_->target = fmt::format("/muster/v1/{}/logs:stream", job_name);
  if (!task_name.empty()) state_->target += "?taskName=" + PercentEncode(task_name);
  state_->options = options;
  std::thread([state = state_] { Run(state); }).detach();
}

LogReader::~LogReader() {
  MutexLock lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
}

int LogReader::fd() const { return state_->wake.get(); }

LogReader::Batch LogReader::Take() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(state_->wake.get(), &count, sizeof count);
  Batch taken;
  MutexLock lock(state_->mutex);
  std::swap(taken, state_->batch);
  state_->queued_bytes = 0;
  state_->changed.notify_all();
  return taken;
}

bool IsTerminalState(std::string_view state) {
  constexpr auto kTerminal = std::to_array<std::string_view>(
      {"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED",
       "JOB_STATE_PARTIALLY_SUCCEEDED"});
  return std::ranges::find(kTerminal, state) != kTerminal.end();
}

}  // namespace muster::cli
