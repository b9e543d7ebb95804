#include "server/log_events.h"

#include <google/cloud/aiplatform/v1/job_state.pb.h>

#include <algorithm>
#include <charconv>
#include <deque>

#include "base/utf8.h"
#include "server/http_status.h"
#include "server/json_string.h"

namespace muster::server {
namespace {

constexpr int kPageEntriesMax = 2000;
constexpr size_t kPageBytesMax = 256 << 10;

std::string SourceKey(const logs::LogEntry& entry) {
  if (entry.task_name == "service") return entry.task_name;
  return fmt::format("{}/{}", entry.task_name, entry.attempt);
}

using SourceCounts = LogEvents::SourceCounts;

struct Position {
  logs::Cursor cursor;
  SourceCounts skip;
};

// "<cursor>" or "<cursor>!<source>=<count>,…"
Result<Position> ParsePosition(std::string_view text) {
  const auto bad = [&] {
    return Fail(Code::kInvalidArgument,
                "\"{}\" is no position in this log: give an event's id, a page token, or nothing",
                ToValidUtf8(text.substr(0, 200)));
  };
  const size_t mark = text.find('!');
  auto cursor = logs::Cursor::Parse(text.substr(0, mark));
  if (!cursor) return bad();
  Position position{std::move(*cursor), {}};
  std::string_view rest = mark == std::string_view::npos ? "" : text.substr(mark + 1);
  if (rest.empty() && mark != std::string_view::npos) return bad();
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const size_t equals = part.rfind('=');
    if (equals == std::string_view::npos || equals == 0) return bad();
    const std::string_view number = part.substr(equals + 1);
    int64_t count = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), count);
    if (error != std::errc() || end != number.data() + number.size() || count <= 0) return bad();
    position.skip[std::string(part.substr(0, equals))] = count;
  }
  return position;
}

void AppendEvent(std::string& out, std::string_view id, const logs::LogEntry& entry,
                 LogEntryJson& json) {
  if (!id.empty()) {
    out += "id: ";
    out += id;
    out += '\n';
  }
  out += "event: log\ndata: ";
  json.Append(out, entry);
  out += "\n\n";
}

// How many entries of each source have gone by since the beginning of a page. Called for every
// line of a log, so it compares sources as they are and makes their keys only once.
class PageCounts {
 public:
  // `skip`: entries of each source, from the page's beginning, that the reader has had already.
  explicit PageCounts(const SourceCounts& skip) {
    for (const auto& [key, count] : skip) sources_.push_back({key, "", -1, 0, count});
  }

  // False if the entry is to be skipped.
  bool Count(const logs::LogEntry& entry) {
    Source& source = Find(entry);
    return ++source.seen > source.skip;
  }

  // "!workerpool0-0/0=2,service=1": what a reader that goes on from here has had.
  void AppendTo(std::string& id) const {
    char separator = '!';
    for (const Source& source : sources_) {
      id += separator;
      id += source.key;
      id += '=';
      id += std::to_string(std::max(source.seen, source.skip));
      separator = ',';
    }
  }

  // To be skipped still, on later pages.
  SourceCounts Left() const {
    SourceCounts left;
    for (const Source& source : sources_) {
      if (source.skip > source.seen) left[source.key] = source.skip - source.seen;
    }
    return left;
  }

 private:
  struct Source {
    std::string key;
    std::string task_name;
    int attempt = -1;  // none of its entries has come yet
    int64_t seen = 0;
    int64_t skip = 0;
  };

  Source& Find(const logs::LogEntry& entry) {
    for (Source& source : sources_) {
      if (source.attempt == entry.attempt && source.task_name == entry.task_name) return source;
    }
    const std::string key = SourceKey(entry);
    auto it = std::ranges::find(sources_, key, &Source::key);
    if (it == sources_.end()) it = sources_.insert(it, {key, "", -1, 0, 0});
    it->task_name = entry.task_name;
    it->attempt = entry.attempt;
    return *it;
  }

  std::vector<Source> sources_;
};

}  // namespace

void LogEntryJson::Append(std::string& out, const logs::LogEntry& entry) {
  const auto second = std::chrono::floor<std::chrono::seconds>(entry.time);
  if (second.time_since_epoch().count() != second_) {
    second_ = second.time_since_epoch().count();
    second_text_ =
        FormatRfc3339(Time(second)).substr(0, std::string_view("2026-11-20T17:36:26").size());
  }
  // As protobuf's JSON has it: no fraction, three or six digits of one.
  const int64_t micros = (entry.time - second).count();
  out += R"({"timestamp":")";
  out += second_text_;
  if (micros != 0) {
    char digits[] = ".000000";
    int64_t rest = micros;
    for (int i = 6; i >= 1; --i, rest /= 10) digits[i] = static_cast<char>('0' + rest % 10);
    out.append(digits, micros % 1000 == 0 ? 4 : 7);
  }
  out += "Z\"";
  if (!entry.severity.empty()) {
    out += R"(,"severity":)";
    AppendJsonString(out, entry.severity);
  }
  if (!entry.task_name.empty()) {
    out += R"(,"taskName":)";
    AppendJsonString(out, entry.task_name);
  }
  if (entry.attempt != 0) {
    out += R"(,"attempt":)";
    out += std::to_string(entry.attempt);
  }
  if (!entry.message.empty()) {
    out += R"(,"message":)";
    AppendJsonString(out, entry.message);
  }
  out += '}';
}

Result<LogEvents> LogEvents::Open(control::JobControl& control, const LogStreamRequest& request) {
  MUSTER_ASSIGN(Position position, ParsePosition(request.position));
  return LogEvents(
      LogReader(control, request.job_name, request.task_name, std::move(position.cursor)),
      std::move(position.skip), request.position.empty() ? request.tail : 0);
}

Result<LogEvents::Batch> LogEvents::Next() {
  if (!task_is_checked_) {
    MUSTER_TRY(reader_.CheckTask());
    task_is_checked_ = true;
  }
  if (tail_ > 0) return NextTail();
  MUSTER_ASSIGN(LogReader::Page page, reader_.Read(kPageEntriesMax, kPageBytesMax));
  Batch batch;
  batch.more = page.more;
  batch.complete = page.complete;
  batch.job_state = page.job_state;
  AppendPage(batch.text, page);
  return batch;
}

void LogEvents::AppendPage(std::string& out, const LogReader::Page& page) {
  const std::string begin = page.begin.ToText();
  PageCounts counts(skip_);
  std::string id;
  size_t next_id_at = 0;
  for (size_t i = 0; i < page.entries.size(); ++i) {
    const logs::LogEntry& entry = page.entries[i];
    if (!counts.Count(entry)) continue;
    id.clear();
    if (i + 1 == page.entries.size() && counts.Left().empty()) {
      id = page.end.ToText();
    } else if (out.size() >= next_id_at) {
      id = begin;
      counts.AppendTo(id);
      if (id.size() > kIdBytesMax) next_id_at = out.size() + kTextPerLongId * id.size();
    }
    AppendEvent(out, id, entry, json_);
  }
  skip_ = counts.Left();
}

Result<LogEvents::Batch> LogEvents::NextTail() {
  constexpr size_t kTailBytesMax = 1 << 20;
  std::deque<logs::LogEntry> last;
  size_t bytes = 0;
  LogReader::Page page;
  do {
    MUSTER_ASSIGN(page, reader_.Read(kPageEntriesMax, kPageBytesMax));
    for (auto& entry : page.entries) {
      bytes += entry.message.size();
      last.push_back(std::move(entry));
      while (last.size() > static_cast<size_t>(tail_) ||
             (bytes > kTailBytesMax && last.size() > 1)) {
        bytes -= last.front().message.size();
        last.pop_front();
      }
    }
  } while (page.more);
  tail_ = 0;
  Batch batch{"", page.more, page.complete, page.job_state};
  const std::string end = page.end.ToText();
  for (size_t i = 0; i < last.size(); ++i) {
    AppendEvent(batch.text, i + 1 == last.size() ? end : "", last[i], json_);
  }
  return batch;
}

std::string EndEvent(int job_state) {
  namespace v1 = google::cloud::aiplatform::v1;
  return fmt::format("event: end\ndata: {{\"state\":\"{}\"}}\n\n",
                     v1::JobState_Name(static_cast<v1::JobState>(job_state)));
}

std::string ErrorEvent(const Error& error) {
  return fmt::format("event: error\ndata: {}\n\n", ErrorBody(HttpError(error)));
}

}  // namespace muster::server
