// A job's log files and events as readers of logs want them, pages and streams alike.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "control/job_control.h"
#include "logs/merge.h"

namespace muster::server {

// Of one job, at one moment; asks for what there is anew with each Read.
class LogReader {
 public:
  // `task_name`: only this replica, or "service"; empty: all.
  LogReader(control::JobControl& control, std::string job_name, std::string task_name,
            logs::Cursor start)
      : control_(control),
        job_name_(std::move(job_name)),
        task_name_(std::move(task_name)),
        cursor_(std::move(start)) {}

  struct Page {
    std::vector<logs::LogEntry> entries;
    logs::Cursor begin;     // before the entries
    logs::Cursor end;       // behind them
    bool more = false;      // another Read would find something now
    bool complete = false;  // the job has ended and these were its last entries
    int job_state = 0;
  };

  // INVALID_ARGUMENT, naming those there are, if the job will never have a replica of that name.
  // For the beginning of a read: what exists does not go away but with the job.
  Status CheckTask() const;

  // Blocks for the disk. Moves on behind what it gives. NOT_FOUND once the job is deleted.
  Result<Page> Read(int limit, size_t limit_bytes);

 private:
  control::JobControl& control_;
  const std::string job_name_;
  const std::string task_name_;
  logs::Cursor cursor_;
};

}  // namespace muster::server
