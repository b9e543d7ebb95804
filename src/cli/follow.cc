#include "cli/follow.h"

#include <poll.h>

#include <array>
#include <chrono>

#include "cli/interrupts.h"
#include "cli/log_format.h"

namespace muster::cli {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

// Short, since Ctrl-C is not heard meanwhile.
constexpr std::chrono::seconds kWaitingPollTimeout{3};
constexpr std::chrono::milliseconds kPollMost{1000};

class Follower {
 public:
  Follower(Context& context, Api& api, const std::string& job_name, const FollowOptions& options)
      : context_(context),
        api_(api),
        job_name_(job_name),
        options_(options),
        formatter_({.color = context.out.has_color(), .keep_multiline = options.keep_multiline}),
        view_api_(api.find(), kWaitingPollTimeout),
        reader_(api.find(), job_name, options.task_name, options.reader),
        next_waiting_poll_(steady_clock::now() + options.waiting_poll) {}

  Result<Followed> Run() {
    while (true) {
      std::array<pollfd, 2> sources{pollfd{interrupts_.fd(), POLLIN, 0},
                                    pollfd{reader_.fd(), POLLIN, 0}};
      ::poll(sources.data(), sources.size(),
             static_cast<int>(std::min(options_.waiting_poll, kPollMost).count()));
      LogReader::Batch batch = reader_.Take();
      Print(batch);
      if (context_.out.error_number() != 0) return Done(FollowEnd::kOutputClosed);
      if (batch.error) return std::unexpected(*batch.error);
      if (batch.ended) return Done(FollowEnd::kJobEnded);
      if (interrupts_.Take() && !HandleInterrupt()) return Done(FollowEnd::kInterrupted);
      TellWhyItWaits();
    }
  }

 private:
  Followed Done(FollowEnd end) const { return {end, cancel_requested_, errors_}; }

  void Print(const LogReader::Batch& batch) {
    std::string text;
    for (const std::string& data : batch.entries) AppendEntry(data, text);
    context_.out.Write(text);
    context_.out.Flush();
    for (const std::string& notice : batch.notices) {
      context_.Say("{}", Paint(context_.err, Color::kDim, notice));
    }
  }

  void AppendEntry(const std::string& data, std::string& text) {
    const json value = json::parse(data, nullptr, false);
    const Result<LogEntry> entry = LogEntryFromJson(value);
    if (!entry) return;  // a newer server may send other things as well
    if (entry->task_name == "service" && entry->message == "Job is running.") is_waiting_ = false;
    if (!options_.task_name.empty() && entry->task_name != options_.task_name) return;
    if (options_.as_json) {
      text += value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    } else {
      formatter_.Append(*entry, text);
    }
    if (entry->task_name == "service" && entry->severity == "ERROR") {
      errors_.push_back(entry->message);
    }
  }

  // False: stop watching.
  bool HandleInterrupt() {
    if (!options_.cancel_on_interrupt || cancel_requested_) return false;
    cancel_requested_ = true;
    context_.Say("\nCancelling the job. (Ctrl-C again: stop watching it.)");
    const Result<json> answer = api_.Post("/v1/" + job_name_ + ":cancel", json::object());
    if (!answer) context_.Say("The job could not be cancelled: {}", answer.error().message);
    return answer.has_value();
  }

  // Says once each why the job has no place yet, for as long as it has none.
  void TellWhyItWaits() {
    const auto now = steady_clock::now();
    if (!is_waiting_ || options_.as_json || now < next_waiting_poll_) return;
    next_waiting_poll_ = now + options_.waiting_poll;
    const Result<json> view = view_api_.Get("/muster/v1/" + job_name_);
    if (!view) return;
    const std::string state = TextAt(*view, "state");
    is_waiting_ = state == "JOB_STATE_QUEUED" || state == "JOB_STATE_PENDING";
    const std::string reason = TextAt(*view, "waitingReason");
    if (!is_waiting_ || reason.empty() || reason == told_reason_) return;
    told_reason_ = reason;
    context_.Say("{}", Paint(context_.err, Color::kYellow, "Waiting: " + reason));
  }

  Context& context_;
  Api& api_;
  const std::string& job_name_;
  const FollowOptions& options_;
  LogFormatter formatter_;
  Api view_api_;
  Interrupts interrupts_;  // before the reader's thread, which is not to receive the signal
  LogReader reader_;

  bool cancel_requested_ = false;
  bool is_waiting_ = true;
  std::string told_reason_;
  std::vector<std::string> errors_;
  steady_clock::time_point next_waiting_poll_;
};

}  // namespace

Result<Followed> FollowJob(Context& context, Api& api, const std::string& job_name,
                           const FollowOptions& options) {
  return Follower(context, api, job_name, options).Run();
}

}  // namespace muster::cli
