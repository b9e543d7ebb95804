#include "logs/merge.h"

#include <algorithm>
#include <deque>

#include "logs/source_reader.h"

namespace muster::logs {

namespace {
constexpr int kEventsAtOnceMax = 1000;
constexpr size_t kEntryOverheadBytes = 64;

// The job's events, fetched some at a time.
class EventsReader {
 public:
  EventsReader(const ReadEvents& read, int64_t after, int limit)
      : read_(read), sequence_(after), fetched_(after), limit_(std::min(limit, kEventsAtOnceMax)) {}

  Result<const LogEntry*> Peek() {
    if (waiting_.empty() && !at_end_) {
      MUSTER_ASSIGN(auto events, read_(fetched_, limit_));
      at_end_ = events.size() < size_t(limit_);
      for (auto& event : events) {
        fetched_ = std::max(fetched_, event.first);
        waiting_.push_back(std::move(event));
      }
    }
    return waiting_.empty() ? nullptr : &waiting_.front().second;
  }

  LogEntry Take() {
    LogEntry entry = std::move(waiting_.front().second);
    sequence_ = waiting_.front().first;
    waiting_.pop_front();
    return entry;
  }

  int64_t sequence() const { return sequence_; }

 private:
  const ReadEvents& read_;
  int64_t sequence_;  // of the last one that was taken
  int64_t fetched_;
  int limit_;
  bool at_end_ = false;
  std::deque<std::pair<int64_t, LogEntry>> waiting_;
};

struct File {
  const Source* source;
  SourceReader reader;
};

// The file whose next line is the oldest; of equals the first.
File* FindOldest(std::vector<File>& files) {
  File* oldest = nullptr;
  for (File& file : files) {
    const auto* line = file.reader.Peek();
    if (line && (!oldest || line->time < oldest->reader.Peek()->time)) oldest = &file;
  }
  return oldest;
}

LogEntry TakeLine(File& file) {
  SourceReader::Line line = file.reader.Take();
  return {line.time, std::move(line.entry.severity), file.source->task_name, file.source->attempt,
          std::move(line.entry.message)};
}
}  // namespace

Result<MergedPage> ReadMerged(const std::vector<Source>& sources, const ReadEvents& read_events,
                              Cursor& cursor, int limit, size_t limit_bytes) {
  limit = std::max(limit, 1);
  std::vector<File> files;
  const Source* event_source = nullptr;
  for (const Source& source : sources) {
    if (source.file.empty()) {
      event_source = &source;
      continue;
    }
    MUSTER_ASSIGN(auto reader, SourceReader::Open(source, cursor.Get(source.key)));
    files.push_back({&source, std::move(reader)});
  }
  std::optional<EventsReader> events;
  if (event_source && read_events) {
    events.emplace(read_events, cursor.Offset(event_source->key), limit);
  }

  MergedPage page;
  for (size_t bytes = 0;;) {
    File* const file = FindOldest(files);
    const LogEntry* event = nullptr;
    if (events) {
      MUSTER_ASSIGN(event, events->Peek());
    }
    if (!file && !event) break;
    const bool is_full = int(page.entries.size()) >= limit || bytes >= limit_bytes;
    if (is_full && !page.entries.empty()) {
      page.more = true;
      break;
    }
    const bool take_event = event && (!file || event->time <= file->reader.Peek()->time);
    page.entries.push_back(take_event ? events->Take() : TakeLine(*file));
    bytes += page.entries.back().message.size() + kEntryOverheadBytes;
  }

  for (const File& file : files) {
    cursor.Set(file.source->key, file.reader.position());
    page.more |= file.reader.gave_up();
  }
  if (events) cursor.Set(event_source->key, events->sequence());
  return page;
}

}  // namespace muster::logs
