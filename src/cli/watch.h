// What commands that submit a job and wait for it share.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/follow.h"

namespace muster::cli {

// POSTs the job and says so in gcloud's words, with what to type next if nobody waits for it.
// Returns the job as the server has it.
Result<nlohmann::json> SubmitJob(Invocation& invocation, Session& session,
                                 const nlohmann::json& job, bool will_watch);

// Follows the job's log to its end, and tells how it ended. The exit status: kExitOk SUCCEEDED,
// kExitCancelled CANCELLED, kExitFailed otherwise; kExitInterrupted after Ctrl-C.
Result<int> WatchJob(Invocation& invocation, Session& session, const std::string& job_name,
                     const FollowOptions& options);

// Drops the job's directory from a muster.v1.JobView if there is none: a job that never started has
// no files.
void DropMissingDirectory(nlohmann::json& view);

}  // namespace muster::cli
