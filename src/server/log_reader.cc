#include "server/log_reader.h"

#include <algorithm>

#include "base/utf8.h"

namespace muster::server {

Status LogReader::CheckTask() const {
  if (task_name_.empty() || task_name_ == "service") return {};
  MUSTER_ASSIGN(const control::LogSources job, control_.Logs(job_name_));
  const auto is_task = [this](const auto& source) { return source.task_name == task_name_; };
  if (std::ranges::any_of(job.sources, is_task)) return {};
  // One that has not started has no log yet.
  MUSTER_ASSIGN(const v1::JobView view, control_.View(job_name_));
  std::string names = "service";
  for (const v1::ReplicaView& replica : view.replicas()) {
    if (replica.task_name() == task_name_) return {};
    names += ", " + replica.task_name();
  }
  return Fail(Code::kInvalidArgument, "no replica {}; there are: {}", ToValidUtf8(task_name_),
              names);
}

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
