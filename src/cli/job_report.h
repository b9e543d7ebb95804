// What people are shown of jobs, beside the resource itself. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/time.h"
#include "cli/context.h"

namespace muster::cli {

// The table of `custom-jobs list`: ID, DISPLAY_NAME, STATE, REPLICAS, CREATED, DURATION.
std::string JobTable(const std::vector<nlohmann::json>& jobs, Time now, const Output& output);

// How a job stands: state and times, why it waits, its replicas and their attempts with exit
// statuses, what the failed ones said last, and where logs and model lie. `view` is a
// muster.v1.JobView.
std::string JobDetails(const nlohmann::json& job, const nlohmann::json& view, Time now,
                       const Output& output);

// What is said when a job that was watched has ended, with what to type next. `told`: errors that
// the reader has just seen in its log; the job's own error is left out if it is among them.
std::string JobSummary(const nlohmann::json& job, const nlohmann::json& view,
                       const std::vector<std::string>& told, const Output& output);

// "JOB_STATE_RUNNING" → "RUNNING".
std::string ShortState(std::string_view state);
// Of such a state: nothing will change it any more.
bool IsEnded(std::string_view state);

}  // namespace muster::cli
