#include "logs/merge.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fstream>
#include <memory>

#include "base/file.h"
#include "logs/record.h"
#include "logs/source_reader.h"
#include "logs/writer.h"

namespace muster::logs {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr size_t kNoLimitBytes = size_t(1) << 40;

class Directory {
 public:
  Directory() { fs::create_directories(path_); }
  ~Directory() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_ = fs::temp_directory_path() / ("merge-" + RandomHex(12));
};

Source FileSource(const Directory& directory, int pool) {
  const std::string task = fmt::format("workerpool{}-0", pool);
  return {task + "/0", task, 0, directory / task};
}

std::unique_ptr<LogWriter> WriterTo(const Source& source, const Clock& clock) {
  UniqueFd fd(::open(source.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  return std::make_unique<LogWriter>(std::move(fd), clock);
}

void Append(const Source& source, const std::string& bytes) {
  std::ofstream(source.file, std::ios::app | std::ios::binary) << bytes;
}

std::string Rec(int64_t micros, const std::string& text, Stream stream = Stream::kStdout,
                bool continues = false) {
  std::string out;
  AppendRecord(out, FromMicros(micros), stream, continues, text);
  return out;
}

// Each page through the cursor's text, as clients do.
MergedPage Page(const std::vector<Source>& sources, std::string& token, int limit = 1000,
                size_t limit_bytes = kNoLimitBytes, const ReadEvents& events = nullptr) {
  auto cursor = Cursor::Parse(token);
  EXPECT_TRUE(cursor) << token;
  auto page = ReadMerged(sources, events, *cursor, limit, limit_bytes);
  EXPECT_TRUE(page) << page.error().message;
  token = cursor->ToText();
  return std::move(*page);
}

std::vector<std::string> Texts(const MergedPage& page) {
  std::vector<std::string> texts;
  for (const auto& entry : page.entries) texts.push_back(entry.message);
  return texts;
}

TEST(ReadMerged, OrdersByTimeAndResumes) {
  const Directory directory;
  const std::vector<Source> sources = {FileSource(directory, 0), FileSource(directory, 1)};
  Append(sources[0], Rec(10, "a") + Rec(30, "c") + Rec(30, "d"));
  Append(sources[1], Rec(20, "b", Stream::kStderr) + Rec(30, "e"));
  std::string token;
  const auto first = Page(sources, token, 2);
  EXPECT_THAT(Texts(first), testing::ElementsAre("a", "b"));
  EXPECT_TRUE(first.more);
  EXPECT_EQ(first.entries[1].task_name, "workerpool1-0");
  EXPECT_EQ(first.entries[1].severity, "ERROR");
  EXPECT_EQ(first.entries[1].time, FromMicros(20));
  const auto second = Page(sources, token, 3);
  EXPECT_THAT(Texts(second), testing::ElementsAre("c", "d", "e"));
  EXPECT_FALSE(second.more);
  Append(sources[0], Rec(40, "f"));
  EXPECT_THAT(Texts(Page(sources, token)), testing::ElementsAre("f"));
}

TEST(ReadMerged, SourcesAppearLater) {
  const Directory directory;
  std::vector<Source> sources = {FileSource(directory, 0)};
  std::string token;
  EXPECT_TRUE(Page(sources, token).entries.empty());
  Append(sources[0], Rec(10, "a"));
  EXPECT_THAT(Texts(Page(sources, token)), testing::ElementsAre("a"));
  sources.push_back(FileSource(directory, 1));
  Append(sources[1], Rec(5, "b"));
  EXPECT_THAT(Texts(Page(sources, token)), testing::ElementsAre("b"));
}

TEST(ReadMerged, MergesTheEvents) {
  const Directory directory;
  const std::vector<Source> sources = {FileSource(directory, 0), {"service", "service", 0, {}}};
  Append(sources[0], Rec(10, "a") + Rec(30, "c"));
  const std::vector<std::pair<int64_t, LogEntry>> all = {
      {3, {FromMicros(5), "INFO", "service", 0, "waiting"}},
      {4, {FromMicros(20), "INFO", "service", 0, "running"}},
      {9, {FromMicros(40), "INFO", "service", 0, "done"}}};
  const ReadEvents events = [&](int64_t after, int limit) {
    std::vector<std::pair<int64_t, LogEntry>> found;
    for (const auto& event : all) {
      if (event.first > after && int(found.size()) < limit) found.push_back(event);
    }
    return Result<std::vector<std::pair<int64_t, LogEntry>>>(found);
  };
  for (const int limit : {1, 2, 5, 100}) {
    std::string token;
    std::vector<std::string> texts;
    for (bool more = true; more;) {
      const auto page = Page(sources, token, limit, kNoLimitBytes, events);
      EXPECT_LE(page.entries.size(), size_t(limit));
      for (const auto& text : Texts(page)) texts.push_back(text);
      more = page.more;
    }
    EXPECT_THAT(texts, testing::ElementsAre("waiting", "a", "running", "c", "done"));
  }
}

TEST(ReadMerged, HandsOnTheEventsError) {
  const std::vector<Source> sources = {{"service", "service", 0, {}}};
  Cursor cursor;
  const ReadEvents events = [](int64_t, int) -> Result<std::vector<std::pair<int64_t, LogEntry>>> {
    return Fail(Code::kUnavailable, "store is closed");
  };
  EXPECT_EQ(ReadMerged(sources, events, cursor, 5, 100).error().code, Code::kUnavailable);
}

TEST(ReadMerged, PagesAreBoundedInBytesButNeverEmpty) {
  const Directory directory;
  const std::vector<Source> sources = {FileSource(directory, 0)};
  for (int i = 0; i < 5; ++i) Append(sources[0], Rec(i, std::string(1000, 'x')));
  std::string token;
  EXPECT_EQ(Page(sources, token, 1000, 2500).entries.size(), 3u);
  EXPECT_EQ(Page(sources, token, 1000, 0).entries.size(), 1u);
  EXPECT_FALSE(Page(sources, token, 1000, 10).more);
}

TEST(ReadMerged, UnfinishedLinesWaitForTheirEndButHoldUpNobody) {
  const Directory directory;
  const std::vector<Source> sources = {FileSource(directory, 0)};
  FakeClock clock;
  auto writer = WriterTo(sources[0], clock);
  std::string token;
  writer->Write(Stream::kStdout, "Down");
  clock.Advance(1s);
  writer->Tick();
  writer->Write(Stream::kStderr, "warning\n");
  EXPECT_THAT(Texts(Page(sources, token)), testing::ElementsAre("warning"));
  EXPECT_TRUE(Page(sources, token).entries.empty());
  writer->Write(Stream::kStdout, "load");
  clock.Advance(1s);
  writer->Tick();
  EXPECT_TRUE(Page(sources, token).entries.empty());
  writer->Write(Stream::kStderr, "another\n");
  writer->Write(Stream::kStdout, "ed\nnext\n");
  EXPECT_THAT(Texts(Page(sources, token)), testing::ElementsAre("another", "Downloaded", "next"));
}

TEST(ReadMerged, WhatADeadWriterLeftUnfinishedIsShown) {
  const Directory directory;
  const std::vector<Source> sources = {FileSource(directory, 0)};
  Append(sources[0], Rec(1, "out", Stream::kStdout, true) + Rec(2, "err", Stream::kStderr, true) +
                         "0000000000000003 O torn");
  for (const int limit : {1, 10}) {
    std::string token;
    std::vector<std::string> texts;
    for (int pages = 0; pages < 6; ++pages) {
      for (const auto& text : Texts(Page(sources, token, limit))) texts.push_back(text);
    }
    EXPECT_THAT(texts, testing::ElementsAre("outtorn", "err"));
  }
}

TEST(ReadMerged, ALineStillBeingWrittenIsNotThereYet) {
  const Directory directory;
  const std::vector<Source> sources = {FileSource(directory, 0)};
  FakeClock clock;
  const auto writer = WriterTo(sources[0], clock);  // its lock says: more may come
  Append(sources[0], Rec(1, "a") + "0000000000000003 O hal");
  std::string token;
  EXPECT_THAT(Texts(Page(sources, token)), testing::ElementsAre("a"));
  EXPECT_TRUE(Page(sources, token).entries.empty());
  Append(sources[0], "f\n");
  EXPECT_THAT(Texts(Page(sources, token)), testing::ElementsAre("half"));
}

TEST(ReadMerged, DamageIsShownAsItIs) {
  const Directory directory;
  const std::vector<Source> sources = {FileSource(directory, 0), FileSource(directory, 1)};
  const std::string garbage(300'000, 'g');
  Append(sources[0],
         "no record\n" + Rec(10, "a") + std::string("\xff\0\n", 3) + garbage + "\n" + Rec(20, "b"));
  Append(sources[1], Rec(9, "first"));
  for (const int limit : {1, 10}) {
    std::string token;
    std::vector<std::string> texts;
    for (bool more = true; more;) {
      const auto page = Page(sources, token, limit);
      for (const auto& text : Texts(page)) texts.push_back(text);
      more = page.more;
    }
    ASSERT_EQ(texts.size(), 6u);
    EXPECT_EQ(texts[0], "first");
    EXPECT_EQ(texts[1], "no record");
    EXPECT_EQ(texts[2], "a");
    EXPECT_EQ(texts[3], std::string("\uFFFD\0", 4));
    EXPECT_THAT(texts[4], testing::StartsWith("ggg"));
    EXPECT_EQ(texts[5], "b");
  }
}

TEST(ReadMerged, HugeDamageIsPassedInBoundedSteps) {
  const Directory directory;
  const std::vector<Source> sources = {FileSource(directory, 0)};
  Append(sources[0], std::string(40 << 20, 'g') + "\n" + Rec(20, "b"));
  std::string token;
  int pages = 0;
  std::vector<std::string> texts;
  for (bool more = true; more && pages < 20; ++pages) {
    const auto page = Page(sources, token);
    for (const auto& text : Texts(page)) texts.push_back(text);
    more = page.more;
  }
  EXPECT_GT(pages, 1);
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[1], "b");
}

TEST(ReadMerged, ForeignCursorsDoNoHarm) {
  const Directory directory;
  const std::vector<Source> sources = {FileSource(directory, 0)};
  Append(sources[0], Rec(1, "a") + Rec(2, "b"));
  std::string token = "1~0-0.0_2n9c";  // behind the end
  EXPECT_TRUE(Page(sources, token).entries.empty());
  EXPECT_EQ(token, "1~0-0.0_2n9c");
  token = "1~0-0.0_3_e1";  // inside a line
  EXPECT_THAT(Texts(Page(sources, token)), testing::ElementsAre("b"));
}

// What a writer was given, as the lines that readers must see.
struct Expected {
  std::string unfinished[2];
  std::vector<std::string> lines[2];

  void Add(int stream, const std::string& bytes) {
    for (const char c : bytes) {
      if (c == '\n') {
        lines[stream].push_back(std::exchange(unfinished[stream], ""));
      } else {
        unfinished[stream].push_back(c);
      }
    }
  }
};

// Random pieces of both streams, with pauses; pages of random limits meanwhile and afterwards.
RC_GTEST_PROP(ReadMerged, EveryLineComesOnceAndInOrder, ()) {
  const Directory directory;
  const std::vector<Source> sources = {FileSource(directory, 0), FileSource(directory, 1)};
  FakeClock clock;
  std::unique_ptr<LogWriter> writers[] = {WriterTo(sources[0], clock), WriterTo(sources[1], clock)};
  Expected expected[2];
  std::vector<std::string> seen[2][2];
  std::string token;
  const auto read = [&] {
    const auto page = Page(sources, token, *rc::gen::inRange(1, 20), *rc::gen::inRange(1, 3000));
    for (const auto& entry : page.entries) {
      const int file = entry.task_name == "workerpool1-0" ? 1 : 0;
      seen[file][entry.severity == "ERROR"].push_back(entry.message);
    }
    return page.more;
  };
  const int steps = *rc::gen::inRange(1, 120);
  for (int step = 0; step < steps; ++step) {
    const int file = *rc::gen::inRange(0, 2), stream = *rc::gen::inRange(0, 2);
    std::string bytes = *rc::gen::container<std::string>(rc::gen::element('a', 'b', 'c', '\n'));
    if (*rc::gen::inRange(0, 12) == 0) bytes += std::string(*rc::gen::inRange(1, 9000), 'L');
    writers[file]->Write(stream ? Stream::kStderr : Stream::kStdout, bytes);
    expected[file].Add(stream, bytes);
    clock.Advance(*rc::gen::inRange(0, 3) * 400ms);
    for (auto& writer : writers) writer->Tick();
    if (*rc::gen::inRange(0, 4) == 0) read();
  }
  for (auto& writer : writers) writer.reset();  // killed: what was not yet written is gone
  while (read()) {
  }
  for (int file = 0; file < 2; ++file) {
    for (int stream = 0; stream < 2; ++stream) {
      const auto& lines = expected[file].lines[stream];
      auto& got = seen[file][stream];
      // A last, unfinished line is there as far as it was written.
      if (got.size() == lines.size() + 1) {
        RC_ASSERT(expected[file].unfinished[stream].starts_with(got.back()));
        got.pop_back();
      }
      RC_ASSERT(got == lines);
    }
  }
}

// Where pages end changes nothing, also with pieces of all streams mixed, long lines and damage.
RC_GTEST_PROP(ReadMerged, LimitsDoNotChangeTheEntries, ()) {
  const Directory directory;
  const std::vector<Source> sources = {FileSource(directory, 0)};
  std::string bytes;
  const int records = *rc::gen::inRange(1, 60);
  for (int i = 0; i < records; ++i) {
    const auto stream = *rc::gen::element(Stream::kStdout, Stream::kStderr, Stream::kFile);
    const bool is_long = *rc::gen::inRange(0, 6) == 0;
    const size_t size =
        size_t(is_long ? *rc::gen::inRange(20'000, 65'536) : *rc::gen::inRange(0, 9));
    std::string text(size, char('a' + i % 26));
    if (*rc::gen::inRange(0, 20) == 0) bytes += "damage\n";
    AppendRecord(bytes, FromMicros(i), stream, *rc::gen::inRange(0, 3) > 0, text);
  }
  if (*rc::gen::arbitrary<bool>()) bytes.resize(bytes.size() - 1);
  Append(sources[0], bytes);
  const auto read_all = [&](int limit, size_t limit_bytes) {
    std::string token;
    std::vector<std::string> texts;
    for (bool more = true; more;) {
      const auto page = Page(sources, token, limit, limit_bytes);
      for (const auto& entry : page.entries) {
        // Short, since a failure prints them: the sizes and letters tell lines apart.
        const auto& text = entry.message;
        std::string short_text = fmt::format("{} {}:", entry.severity, text.size());
        for (size_t at = 0; at < text.size(); ++at) {
          if (at == 0 || text[at] != text[at - 1])
            short_text += fmt::format("{}@{} ", text[at], at);
        }
        texts.push_back(short_text);
      }
      more = page.more;
    }
    return texts;
  };
  const auto whole = read_all(100'000, kNoLimitBytes);
  RC_ASSERT(read_all(1, kNoLimitBytes) == whole);
  RC_ASSERT(read_all(*rc::gen::inRange(1, 30), size_t(*rc::gen::inRange(0, 100'000))) == whole);
}

}  // namespace
}  // namespace muster::logs
