#include "cli/custom_jobs.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <thread>

#include "cli/flags.h"
#include "cli/format.h"
#include "cli/job_report.h"
#include "cli/watch.h"
#include "cli/yaml.h"

namespace muster::cli {
namespace {

using nlohmann::json;

constexpr const char* kCollection = "customJobs";
constexpr std::chrono::seconds kDeleteTimeout{60};

struct JobFlags {
  std::string job;
  std::string format;
  ServerFlags server;
};

void AddJobFlags(CLI::App& app, JobFlags& flags) {
  AddText(app, "JOB", flags.job, "ID or full name of the job");
  AddServerFlags(app, flags.server);
}

// The job's full name, from its argument and where the command works.
Result<std::string> NameOf(const Context& context, const JobFlags& flags) {
  if (flags.job.empty()) return Fail(Code::kInvalidArgument, "argument JOB: Must be specified.");
  MUSTER_ASSIGN(const Location location,
                ResolveLocation(context.environment, flags.server.project, flags.server.region));
  return JobName(flags.job, location, kCollection);
}

// --- describe ---

Result<int> Describe(Invocation& invocation, const JobFlags& flags) {
  Context& context = invocation.context;
  const Result<Format> format = ParseFormat(flags.format);
  if (!format) return invocation.Usage(format.error());
  const Result<std::string> name = NameOf(context, flags);
  if (!name) return invocation.Usage(name.error());
  MUSTER_ASSIGN(Session session, OpenSession(context, flags.server));
  MUSTER_ASSIGN(const json job, session.api.Get("/v1/" + *name));
  context.out.Write(FormatResource(job, *format));
  if (format->kind != Format::Kind::kDefault) return kExitOk;

  MUSTER_ASSIGN(json view, session.api.Get("/muster/v1/" + *name));
  DropMissingDirectory(view);
  const std::string details = JobDetails(job, view, context.clock.Now(), context.out);
  if (context.out.is_terminal()) {
    context.out.Write("\n" + details);
    return kExitOk;
  }
  // Into a file or a pipe: comments, so that the whole is YAML.
  std::string_view rest = details;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    context.out.Print("#{}{}\n", end == 0 ? "" : " ", rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return kExitOk;
}

// --- list ---

struct ListFlags {
  std::string filter;
  std::string sort_by;
  std::string limit;
  std::string page_size;
  std::string format;
  ServerFlags server;
};

Result<int> ParsePositive(std::string_view flag, std::string_view text, int unset) {
  if (text.empty()) return unset;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value > 0) return value;
  return Fail(Code::kInvalidArgument,
              "argument {}: Value must be a whole number of at least 1; "
              "received: {}",
              flag, text);
}

Result<std::vector<json>> FetchJobs(Session& session, const std::string& filter, int limit,
                                    int page_size) {
  std::vector<json> jobs;
  std::string token;
  while (jobs.size() < static_cast<size_t>(limit)) {
    std::string target = fmt::format("/v1/{}/{}?pageSize={}", session.location.Parent(),
                                     kCollection, std::min(page_size, limit));
    if (!filter.empty()) target += "&filter=" + PercentEncode(filter);
    if (!token.empty()) target += "&pageToken=" + PercentEncode(token);
    MUSTER_ASSIGN(json page, session.api.Get(target));
    token = TextAt(page, "nextPageToken");
    if (const auto found = page.find(kCollection); found != page.end() && found->is_array()) {
      for (json& job : *found) jobs.push_back(std::move(job));
    }
    if (token.empty()) break;
  }
  if (jobs.size() > static_cast<size_t>(limit)) jobs.resize(limit);
  return jobs;
}

Result<int> List(Invocation& invocation, const ListFlags& flags) {
  Context& context = invocation.context;
  const Result<Format> format = ParseFormat(flags.format);
  if (!format) return invocation.Usage(format.error());
  const auto limit = ParsePositive("--limit", flags.limit, std::numeric_limits<int>::max());
  if (!limit) return invocation.Usage(limit.error());
  const auto page_size = ParsePositive("--page-size", flags.page_size, 100);
  if (!page_size) return invocation.Usage(page_size.error());

  MUSTER_ASSIGN(Session session, OpenSession(context, flags.server));
  // What is sorted here must be complete before it is cut.
  const bool sorts = !flags.sort_by.empty();
  MUSTER_ASSIGN(std::vector<json> jobs,
                FetchJobs(session, flags.filter, sorts ? std::numeric_limits<int>::max() : *limit,
                          *page_size));
  SortResources(jobs, flags.sort_by);
  if (jobs.size() > static_cast<size_t>(*limit)) jobs.resize(*limit);
  if (format->kind != Format::Kind::kDefault) {
    context.out.Write(FormatResources(jobs, *format));
  } else if (jobs.empty()) {
    context.Say("Listed 0 items.");
  } else {
    context.out.Write(JobTable(jobs, context.clock.Now(), context.out));
  }
  return kExitOk;
}

// --- cancel, delete ---

Result<int> Cancel(Invocation& invocation, const JobFlags& flags) {
  const Result<std::string> name = NameOf(invocation.context, flags);
  if (!name) return invocation.Usage(name.error());
  MUSTER_ASSIGN(Session session, OpenSession(invocation.context, flags.server));
  MUSTER_ASSIGN(const json job, session.api.Get("/v1/" + *name));
  if (const std::string state = TextAt(job, "state"); IsEnded(state)) {
    invocation.context.Say("CustomJob [{}] has already ended: it is {}.", *name, ShortState(state));
    return kExitOk;
  }
  MUSTER_TRY(session.api.Post(fmt::format("/v1/{}:cancel", *name), json::object()));
  invocation.context.Say(
      "Request to cancel CustomJob [{0}] has been sent.\n\nHow it stands:\n\n"
      "  $ muster custom-jobs describe {0}",
      *name);
  return kExitOk;
}

Result<int> Delete(Invocation& invocation, const JobFlags& flags) {
  const Result<std::string> name = NameOf(invocation.context, flags);
  if (!name) return invocation.Usage(name.error());
  MUSTER_ASSIGN(Session session, OpenSession(invocation.context, flags.server));
  MUSTER_ASSIGN(json operation, session.api.Delete("/v1/" + *name));
  const auto deadline = std::chrono::steady_clock::now() + kDeleteTimeout;
  while (!ValueAt(operation, "done").is_boolean() || !operation["done"].get<bool>()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return Fail(Code::kDeadlineExceeded, "CustomJob [{}] is being deleted still, by {}", *name,
                  TextAt(operation, "name"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    MUSTER_ASSIGN(operation, session.api.Get("/v1/" + TextAt(operation, "name")));
  }
  if (const json& error = ValueAt(operation, "error"); error.is_object()) {
    return Fail(Code::kUnknown, "CustomJob [{}] could not be deleted: {}", *name,
                TextAt(error, "message"));
  }
  invocation.context.Say("Deleted CustomJob [{}].", *name);
  return kExitOk;
}

// --- stream-logs ---

struct StreamFlags : JobFlags {
  std::string task_name;
  std::string polling_interval;
  bool allow_multiline = false;
};

Result<int> StreamLogs(Invocation& invocation, const StreamFlags& flags) {
  Context& context = invocation.context;
  if (!flags.format.empty() && flags.format != "json") {
    return invocation.Usage(
        {Code::kInvalidArgument, "Invalid value for [--format]: a log can only be json"});
  }
  const Result<std::string> name = NameOf(context, flags);
  if (!name) return invocation.Usage(name.error());
  MUSTER_ASSIGN(Session session, OpenSession(context, flags.server));
  MUSTER_TRY(session.api.Get("/v1/" + *name));
  FollowOptions options;
  options.task_name = flags.task_name;
  options.keep_multiline = flags.allow_multiline;
  options.as_json = flags.format == "json";
  MUSTER_ASSIGN(const Followed followed, FollowJob(context, session.api, *name, options));
  if (followed.end == FollowEnd::kOutputClosed) return kExitOutputClosed;
  if (followed.end == FollowEnd::kInterrupted) {
    context.Say(
        "\nNot watching any more; the job goes on. To cancel it:\n\n"
        "  $ muster custom-jobs cancel {}",
        *name);
    return kExitInterrupted;
  }
  return kExitOk;
}

}  // namespace

void AddCustomJobsCommands(Registry& registry) {
  registry.DescribeGroup("custom-jobs", "Run, watch and end custom training jobs");
  AddCustomJobsCreate(registry);

  auto describe = std::make_shared<JobFlags>();
  CLI::App& describe_app =
      registry.Add("custom-jobs describe", "Show a job, its replicas and how they ended",
                   [describe](Invocation& invocation) { return Describe(invocation, *describe); });
  AddJobFlags(describe_app, *describe);
  AddText(describe_app, "--format=FORMAT", describe->format,
          "json, yaml or value(FIELD,…): only the resource");

  auto list = std::make_shared<ListFlags>();
  CLI::App& list_app =
      registry.Add("custom-jobs list", "List jobs, newest first",
                   [list](Invocation& invocation) { return List(invocation, *list); });
  AddText(list_app, "--filter=EXPRESSION", list->filter,
          "E.g. 'state=RUNNING AND labels.team=vision'");
  AddText(list_app, "--limit=N", list->limit, "At most so many jobs");
  AddText(list_app, "--page-size=N", list->page_size, "Jobs asked for at once (default 100)");
  AddText(list_app, "--sort-by=FIELD,...", list->sort_by, "~FIELD for descending");
  AddText(list_app, "--format=FORMAT", list->format,
          "json, yaml, value(FIELD,…) or table(FIELD,…)");
  AddServerFlags(list_app, list->server);
  list_app.footer("DURATION is from a job's submission to its end, or until now.");

  auto cancel = std::make_shared<JobFlags>();
  AddJobFlags(
      registry.Add("custom-jobs cancel", "Cancel a job",
                   [cancel](Invocation& invocation) { return Cancel(invocation, *cancel); }),
      *cancel);

  auto remove = std::make_shared<JobFlags>();
  AddJobFlags(
      registry.Add("custom-jobs delete",
                   "Delete a job that has ended, with its logs; files in buckets stay",
                   [remove](Invocation& invocation) { return Delete(invocation, *remove); }),
      *remove);

  auto stream = std::make_shared<StreamFlags>();
  CLI::App& stream_app =
      registry.Add("custom-jobs stream-logs", "Show a job's log from its start until the job ends",
                   [stream](Invocation& invocation) { return StreamLogs(invocation, *stream); });
  AddJobFlags(stream_app, *stream);
  AddText(stream_app, "--task-name=NAME", stream->task_name,
          "Only this replica, e.g. workerpool0-0");
  stream_app.add_flag("--allow-multiline-logs", stream->allow_multiline,
                      "Do not repeat time and name on each line of a message");
  AddText(stream_app, "--polling-interval=SECONDS", stream->polling_interval,
          "Accepted for gcloud's sake; lines come as they are written");
  AddText(stream_app, "--format=FORMAT", stream->format, "json: an object a line");
}

}  // namespace muster::cli
