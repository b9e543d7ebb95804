#include "cli/watch.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include "cli/job_report.h"

namespace muster::cli {
namespace {

using nlohmann::json;

int ExitOf(std::string_view state) {
  if (state == "JOB_STATE_SUCCEEDED") return kExitOk;
  if (state == "JOB_STATE_CANCELLED") return kExitCancelled;
  return kExitFailed;
}

// musterd may be restarting just when the job has ended.
Result<json> GetPatiently(Api& api, const std::string& target) {
  constexpr std::chrono::milliseconds kPause{500};
  constexpr int kAttempts = 60;
  for (int attempt = 1;; ++attempt) {
    Result<json> answer = api.Get(target);
    if (answer || answer.error().code != Code::kUnavailable || attempt == kAttempts) return answer;
    std::this_thread::sleep_for(kPause);
  }
}

// A model's directory that we can see to be empty is not worth showing: the program saves
// elsewhere.
void DropEmptyModelDirectory(json& view) {
  std::error_code error;
  const std::filesystem::path directory = TextAt(view, "modelDirectory");
  if (!directory.empty() && std::filesystem::is_empty(directory, error) && !error) {
    view.erase("modelDirectory");
  }
}

}  // namespace

void DropMissingDirectory(json& view) {
  const std::string directory = TextAt(view, "directory");
  std::error_code error;
  if (directory.empty() || std::filesystem::exists(directory, error)) return;
  view.erase("directory");
}

Result<json> SubmitJob(Invocation& invocation, Session& session, const json& job, bool will_watch) {
  MUSTER_ASSIGN(json created,
                session.api.Post(fmt::format("/v1/{}/customJobs", session.location.Parent()), job));
  const std::string name = TextAt(created, "name");
  Context& context = invocation.context;
  context.Say("CustomJob [{}] is submitted successfully.", name);
  if (!will_watch) {
    context.Say(
        "\nIt runs on by itself. How it stands:\n\n  $ muster custom-jobs describe {0}\n\n"
        "Its log, as it comes:\n\n  $ muster custom-jobs stream-logs {0}",
        name);
  }
  return created;
}

Result<int> WatchJob(Invocation& invocation, Session& session, const std::string& job_name,
                     const FollowOptions& options) {
  Context& context = invocation.context;
  MUSTER_ASSIGN(const Followed followed, FollowJob(context, session.api, job_name, options));
  if (followed.end == FollowEnd::kOutputClosed) return kExitOutputClosed;
  if (followed.end == FollowEnd::kInterrupted) {
    context.Say(
        "\nNot watching any more; the job {}. To watch it again, or to cancel it:\n\n"
        "  $ muster custom-jobs stream-logs {}\n  $ muster custom-jobs cancel {}",
        followed.cancel_requested ? "is being cancelled" : "goes on", job_name, job_name);
    return kExitInterrupted;
  }
  MUSTER_ASSIGN(const json job, GetPatiently(session.api, "/v1/" + job_name));
  json view = session.api.Get("/muster/v1/" + job_name).value_or(json());
  DropEmptyModelDirectory(view);
  DropMissingDirectory(view);
  context.out.Flush();
  // With the log in a file or a pipe, only the summary may be seen.
  const std::vector<std::string> told =
      context.out.is_terminal() ? followed.errors : std::vector<std::string>();
  context.err.Write(JobSummary(job, view, told, context.err));
  const int status = ExitOf(TextAt(job, "state"));
  return followed.cancel_requested && status == kExitCancelled ? kExitInterrupted : status;
}

}  // namespace muster::cli
