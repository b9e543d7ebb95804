#include "server/log_reader.h"

namespace muster::server {

Result<LogReader::Page> LogReader::Read(int limit, size_t limit_bytes) {
  // Whether the job has ended is asked before the files are read: what an ended job left is all on
  // disk by then, so that nothing can come behind a page that is called the last.
  MUSTER_ASSIGN(control::LogSources job, control_.Logs(job_name_));
  const logs::ReadEvents read_events = control_.EventReader(job.job_uid);
  if (!task_name_.empty()) {
    std::erase_if(job.sources, [&](const auto& s) { return s.task_name != task_name_; });
  }
  Page page;
  page.begin = cursor_;
  MUSTER_ASSIGN(logs::MergedPage merged,
                logs::ReadMerged(job.sources, read_events, cursor_, limit, limit_bytes));
  page.entries = std::move(merged.entries);
  page.end = cursor_;
  page.more = merged.more;
  page.complete = job.ended && !merged.more;
  page.job_state = job.state;
  return page;
}

}  // namespace muster::server
