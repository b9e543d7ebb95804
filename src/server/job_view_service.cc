#include "server/job_view_service.h"

#include <muster/v1/job_view.pb.h>

#include <algorithm>

#include "base/utf8.h"
#include "control/job_control.h"
#include "server/log_reader.h"
#include "server/method_table.h"
#include "server/resource_name.h"

namespace muster::server {
namespace {

constexpr int kPageSizeDefault = 1000;
constexpr int kPageSizeMax = 10'000;
constexpr size_t kPageBytesMax = 4 << 20;

void SetEntry(const logs::LogEntry& from, v1::LogEntry& to) {
  const int64_t micros = ToMicros(from.time);
  to.mutable_timestamp()->set_seconds(micros / 1'000'000);
  to.mutable_timestamp()->set_nanos(static_cast<int32_t>(micros % 1'000'000) * 1000);
  to.set_severity(from.severity);
  to.set_task_name(from.task_name);
  to.set_attempt(from.attempt);
  to.set_message(ToValidUtf8(from.message));
}

Result<v1::ListLogEntriesResponse> ListLogEntries(control::JobControl& control,
                                                  const v1::ListLogEntriesRequest& request) {
  MUSTER_TRY(CheckName("name", request.name(), kCustomJobPattern));
  if (request.page_size() < 0) {
    return Fail(Code::kInvalidArgument, "Invalid value for 'page_size': {} is negative",
                request.page_size());
  }
  const int limit =
      request.page_size() == 0 ? kPageSizeDefault : std::min(request.page_size(), kPageSizeMax);
  MUSTER_ASSIGN(logs::Cursor start, logs::Cursor::Parse(request.page_token()));
  LogReader reader(control, request.name(), request.task_name(), std::move(start));
  MUSTER_TRY(reader.CheckTask());
  MUSTER_ASSIGN(LogReader::Page page, reader.Read(limit, kPageBytesMax));
  v1::ListLogEntriesResponse response;
  for (const auto& entry : page.entries) SetEntry(entry, *response.add_entries());
  response.set_next_page_token(page.end.ToText());
  response.set_complete(page.complete);
  return response;
}

}  // namespace

void AddJobViewService(MethodTable& methods, control::JobControl& control) {
  methods.Add<v1::GetJobViewRequest, v1::JobView>(
      "muster.v1.JobViewService/GetJobView",
      [&control](const v1::GetJobViewRequest& request, const CallContext&) -> Result<v1::JobView> {
        MUSTER_TRY(CheckName("name", request.name(), kCustomJobPattern));
        return control.View(request.name());
      });
  methods.Add<v1::ListLogEntriesRequest, v1::ListLogEntriesResponse>(
      "muster.v1.JobViewService/ListLogEntries",
      [&control](const v1::ListLogEntriesRequest& request, const CallContext&) {
        return ListLogEntries(control, request);
      });
}

}  // namespace muster::server
