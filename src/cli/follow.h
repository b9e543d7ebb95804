// Watching a job: its log as it comes, until it ends.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/api.h"
#include "cli/context.h"
#include "cli/log_reader.h"

namespace muster::cli {

struct FollowOptions {
  std::string task_name;  // only this replica, or "service"; empty: all
  bool keep_multiline = false;
  bool as_json = false;  // one muster.v1.LogEntry a line
  // The first Ctrl-C cancels the job and goes on watching; else it stops watching.
  bool cancel_on_interrupt = false;
  std::chrono::milliseconds waiting_poll{2000};  // how often to ask why the job waits
  LogReaderOptions reader;
};

enum class FollowEnd { kJobEnded, kInterrupted, kOutputClosed };

struct Followed {
  FollowEnd end = FollowEnd::kJobEnded;
  bool cancel_requested = false;    // by Ctrl-C
  std::vector<std::string> errors;  // of the service, as shown
};

// Writes the log to context.out, and what else there is to know (why the job waits, that musterd
// is away) to context.err.
Result<Followed> FollowJob(Context& context, Api& api, const std::string& job_name,
                           const FollowOptions& options);

}  // namespace muster::cli
