#include "cli/job_report.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "cli/api.h"
#include "cli/duration.h"
#include "cli/log_format.h"
#include "cli/resource_name.h"
#include "cli/table.h"

namespace muster::cli {
namespace {

using nlohmann::json;

std::optional<Time> TimeAt(const json& object, std::string_view key) {
  const Result<Time> time = ParseRfc3339(TextAt(object, key));
  return time ? std::optional(*time) : std::nullopt;
}

std::string Between(std::optional<Time> begin, std::optional<Time> end) {
  if (!begin || !end) return "";
  return FormatDuration(std::chrono::duration_cast<std::chrono::milliseconds>(*end - *begin));
}

std::string PaintState(std::string_view state, const Output& output) {
  std::string word = ShortState(state);
  if (word == "SUCCEEDED") return Paint(output, Color::kGreen, word);
  if (word == "FAILED") return Paint(output, Color::kRed, word);
  if (word == "RUNNING") return Paint(output, Color::kCyan, word);
  if (word == "QUEUED" || word == "PENDING" || word == "CANCELLING" || word == "CANCELLED") {
    return Paint(output, Color::kYellow, word);
  }
  return word;
}

int64_t ReplicasOf(const json& job) {
  int64_t sum = 0;
  for (const json& pool : ValueAt(ValueAt(job, "jobSpec"), "workerPoolSpecs")) {
    const json& count = ValueAt(pool, "replicaCount");
    if (count.is_number_integer()) sum += count.get<int64_t>();
    if (count.is_string()) {
      const std::string text = count.get<std::string>();
      int64_t value = 0;
      std::from_chars(text.data(), text.data() + text.size(), value);
      sum += value;
    }
  }
  return sum;
}

int IntAt(const json& object, std::string_view key) {
  const json& value = ValueAt(object, key);
  return value.is_number_integer() ? value.get<int>() : 0;
}

std::string ListText(const json& list) {
  std::string text;
  for (const json& item : list) text += (text.empty() ? "" : ",") + item.dump();
  return text;
}

// "0", "1", "137 (SIGKILL)", "137 (out of memory)", "never started".
std::string ExitText(const json& attempt) {
  const std::string state = TextAt(attempt, "state");
  if (state != "ENDED") return "";
  const std::string cause = TextAt(attempt, "cause");
  const int status = IntAt(attempt, "exitStatus");
  if (cause == "NEVER_STARTED") return "never started";
  if (cause == "AGENT_LOST") return "agent lost";
  if (cause == "HOST_LOST") return "host lost";
  std::string text = std::to_string(status);
  if (cause == "OUT_OF_MEMORY") return text + " (out of memory)";
  if (cause == "STOPPED") return text + " (stopped)";
  if (status == 139) return text + " (SIGSEGV)";
  if (status == 137) return text + " (SIGKILL)";
  if (status == 134) return text + " (SIGABRT)";
  return text;
}

std::vector<std::string> AttemptRow(const json& replica, const json& attempt, bool with_gpus,
                                    Time now) {
  const auto end = TimeAt(attempt, "endTime");
  std::vector<std::string> row = {TextAt(replica, "taskName"),
                                  TextAt(replica, "role"),
                                  std::to_string(IntAt(attempt, "attempt") + 1),
                                  TextAt(attempt, "state"),
                                  ExitText(attempt),
                                  Between(TimeAt(attempt, "startTime"), end ? end : now),
                                  TextAt(replica, "address"),
                                  TextAt(replica, "machineType")};
  if (with_gpus) row.push_back(ListText(ValueAt(replica, "gpus")));
  return row;
}

std::string ReplicaTable(const json& view, bool job_ended, Time now) {
  const json& replicas = ValueAt(view, "replicas");
  bool with_gpus = false;
  for (const json& replica : replicas) with_gpus |= !ValueAt(replica, "gpus").empty();
  Table table;
  table.header = {"REPLICA", "ROLE", "ATTEMPT", "STATE", "EXIT", "TIME", "ADDRESS", "MACHINE_TYPE"};
  if (with_gpus) table.header.emplace_back("GPUS");
  for (const json& replica : replicas) {
    const json& attempts = ValueAt(replica, "attempts");
    for (const json& attempt : attempts) {
      table.rows.push_back(AttemptRow(replica, attempt, with_gpus, now));
    }
    if (attempts.empty()) {
      table.rows.push_back({TextAt(replica, "taskName"), TextAt(replica, "role"), "",
                            job_ended ? "NEVER STARTED" : "WAITING", "", "",
                            TextAt(replica, "address"), TextAt(replica, "machineType")});
    }
  }
  return table.rows.empty() ? "" : FormatTable(table);
}

// What failed attempts said last.
std::string FailureDetails(const json& view) {
  std::string text;
  for (const json& replica : ValueAt(view, "replicas")) {
    for (const json& attempt : ValueAt(replica, "attempts")) {
      const std::string detail = TextAt(attempt, "detail");
      if (detail.empty() || TextAt(attempt, "cause") == "STOPPED") continue;
      text += fmt::format("\n{}:\n", TextAt(replica, "taskName"));
      std::string_view rest = detail;
      while (rest.ends_with('\n')) rest.remove_suffix(1);
      while (!rest.empty()) {
        const size_t end = rest.find('\n');
        text += "  " + CleanLine(rest.substr(0, end), false) + "\n";
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      }
    }
  }
  return text;
}

std::string_view Trimmed(std::string_view text) {
  while (text.ends_with('\n') || text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::string StateLine(const json& job, Time now, const Output& output) {
  const auto created = TimeAt(job, "createTime");
  const auto started = TimeAt(job, "startTime");
  const auto ended = TimeAt(job, "endTime");
  std::string line = PaintState(TextAt(job, "state"), output);
  if (ended) line += " after " + Between(created, ended);
  if (!ended && started) line += " for " + Between(started, now);
  if (!ended && !started) line += " for " + Between(created, now);
  if (started) line += fmt::format(" (all replicas up after {})", Between(created, started));
  return line;
}

}  // namespace

std::string ShortState(std::string_view state) {
  constexpr std::string_view kPrefix = "JOB_STATE_";
  if (state.starts_with(kPrefix)) state.remove_prefix(kPrefix.size());
  return std::string(state);
}

std::string JobTable(const std::vector<json>& jobs, Time now, const Output& output) {
  Table table;
  table.header = {"ID", "DISPLAY_NAME", "STATE", "REPLICAS", "CREATED", "DURATION"};
  for (const json& job : jobs) {
    const auto created = TimeAt(job, "createTime");
    const auto ended = TimeAt(job, "endTime");
    table.rows.push_back({BaseName(TextAt(job, "name")),
                          CleanLine(TextAt(job, "displayName"), false),
                          PaintState(TextAt(job, "state"), output), std::to_string(ReplicasOf(job)),
                          created ? FormatRfc3339(*created).substr(0, 19) + "Z" : "",
                          Between(created, ended ? ended : now)});
  }
  return FormatTable(table);
}

std::string JobDetails(const json& job, const json& view, Time now, const Output& output) {
  std::string text = "State:    " + StateLine(job, now, output) + "\n";
  const auto line = [&text](std::string_view label, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:<10}{}\n", label, CleanLine(value, false));
  };
  line("Waiting:", TextAt(view, "waitingReason"));
  for (const json& warning : ValueAt(view, "warnings")) {
    if (warning.is_string()) line("Warning:", warning.get<std::string>());
  }
  line("Network:", TextAt(view, "network"));
  line("Files:", TextAt(view, "directory"));
  line("Model:", TextAt(view, "modelDirectory"));
  const std::string table = ReplicaTable(view, IsEnded(TextAt(job, "state")), now);
  if (!table.empty()) text += "\n" + table;
  return text + FailureDetails(view);
}

bool IsEnded(std::string_view state) {
  const std::string word = ShortState(state);
  return word == "SUCCEEDED" || word == "FAILED" || word == "CANCELLED" || word == "EXPIRED" ||
         word == "PARTIALLY_SUCCEEDED";
}

std::string JobSummary(const json& job, const json& view, const std::vector<std::string>& told,
                       const Output& output) {
  const std::string name = TextAt(job, "name");
  const std::string state = ShortState(TextAt(job, "state"));
  std::string text;
  const auto line = [&text](std::string_view label, const std::string& value) {
    if (!value.empty()) text += fmt::format("  {:<17}{}\n", label, value);
  };
  text += fmt::format("\n{} {}\n", Paint(output, Color::kBold, TextAt(job, "displayName")),
                      PaintState(TextAt(job, "state"), output));
  const auto created = TimeAt(job, "createTime");
  line("wall time", Between(created, TimeAt(job, "endTime")));
  if (const auto started = TimeAt(job, "startTime")) {
    line("all replicas up", Between(created, started) + " after submission");
  }
  const std::string model = TextAt(view, "modelDirectory");
  if (state == "SUCCEEDED") line("model", model);
  if (state != "SUCCEEDED") line("files", TextAt(view, "directory"));
  const std::string message = TextAt(ValueAt(job, "error"), "message");
  const bool is_told = std::ranges::find(told, Trimmed(message), Trimmed) != told.end();
  if (!message.empty() && state != "SUCCEEDED" && !is_told) {
    std::string_view rest = Trimmed(message);
    text += "\n";
    while (!rest.empty()) {
      const size_t end = rest.find('\n');
      text += "  " + CleanLine(rest.substr(0, end), false) + "\n";
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
  }
  text += "\nNext:\n";
  if (state == "SUCCEEDED" && !model.empty()) text += fmt::format("  ls {}\n", model);
  text += fmt::format("  muster custom-jobs describe {}\n", name);
  text += fmt::format("  muster custom-jobs stream-logs {}\n", name);
  return text;
}

}  // namespace muster::cli
