#include "server/log_events.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <muster/v1/job_view.pb.h>
#include <rapidcheck/gtest.h>

#include "logs/record.h"
#include "server/fake_job_control.h"
#include "server/job_view_service.h"
#include "server/method_table.h"
#include "server/test_logs.h"

namespace muster::server {
namespace {

using testing::HasSubstr;

struct Event {
  std::string id;
  std::string event;
  std::string data;
};

std::vector<Event> ParseEvents(std::string_view text) {
  std::vector<Event> events;
  while (!text.empty()) {
    const size_t end = text.find("\n\n");
    std::string_view lines = text.substr(0, end);
    text.remove_prefix(end + 2);
    Event event;
    while (!lines.empty()) {
      const std::string_view line = lines.substr(0, lines.find('\n'));
      lines.remove_prefix(std::min(lines.size(), line.size() + 1));
      if (line.starts_with("id: ")) event.id = line.substr(4);
      if (line.starts_with("event: ")) event.event = line.substr(7);
      if (line.starts_with("data: ")) event.data = line.substr(6);
    }
    events.push_back(event);
  }
  return events;
}

// All events from a position to what is there now.
std::vector<Event> ReadAll(FakeJobControl& control, LogStreamRequest request) {
  request.job_name = kTestJob;
  auto events = LogEvents::Open(control, request);
  EXPECT_TRUE(events.has_value());
  std::string text;
  while (true) {
    const auto batch = events->Next();
    EXPECT_TRUE(batch.has_value());
    text += batch->text;
    if (!batch->more) break;
  }
  return ParseEvents(text);
}

std::vector<std::string> Data(const std::vector<Event>& events, size_t from = 0) {
  std::vector<std::string> data;
  for (size_t i = from; i < events.size(); ++i) data.push_back(events[i].data);
  return data;
}

TEST(LogEntryJson, IsWhatListLogEntriesGives) {
  logs::LogEntry entry;
  entry.severity = "ERROR";
  entry.task_name = "workerpool1-0";
  entry.attempt = 2;
  entry.message = "a \"quoted\" \\ \xff line\té";
  for (const int64_t micros :
       {1'700'000'000'000'000, 1'700'000'000'217'000, 1'700'000'000'000'007}) {
    entry.time = FromMicros(micros);
    std::string json;
    LogEntryJson().Append(json, entry);
    v1::LogEntry parsed;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json, &parsed).ok()) << json;
    EXPECT_EQ(parsed.timestamp().seconds() * 1'000'000 + parsed.timestamp().nanos() / 1000, micros);
    EXPECT_EQ(parsed.severity(), "ERROR");
    EXPECT_EQ(parsed.task_name(), "workerpool1-0");
    EXPECT_EQ(parsed.attempt(), 2);
    EXPECT_EQ(parsed.message(), "a \"quoted\" \\ \uFFFD line\té");
    std::string again;
    ASSERT_TRUE(google::protobuf::util::MessageToJsonString(parsed, &again).ok());
    EXPECT_EQ(again, json);
  }
  std::string empty;
  LogEntryJson().Append(empty, {});
  EXPECT_EQ(empty, R"({"timestamp":"1970-01-01T00:00:00Z"})");
}

TEST(LogEvents, MergesFilesAndServiceEvents) {
  TestLogs logs({"workerpool0-0/0", "workerpool1-0/0"});
  FakeJobControl control;
  control.SetLogs(kTestJob, logs.sources());
  logs.Write("workerpool0-0/0", 10, "a");
  logs.Write("workerpool1-0/0", 20, "b");
  logs.Write("workerpool0-0/0", 30, "c");
  control.AddEvent({FromMicros(1'700'000'000'000'015), "INFO", "service", 0, "Job is running."});
  const auto events = ReadAll(control, {});
  ASSERT_EQ(events.size(), 4u);
  EXPECT_THAT(events[0].data, HasSubstr("\"a\""));
  EXPECT_THAT(events[1].data, HasSubstr("Job is running."));
  EXPECT_THAT(events[3].data, HasSubstr("\"c\""));
  EXPECT_EQ(events[0].event, "log");

  LogStreamRequest one;
  one.task_name = "workerpool1-0";
  EXPECT_EQ(Data(ReadAll(control, one)), std::vector{events[2].data});
  one.task_name = "service";
  EXPECT_EQ(Data(ReadAll(control, one)), std::vector{events[1].data});
  one.task_name = "workerpool3-0";
  EXPECT_TRUE(ReadAll(control, one).empty());
}

TEST(LogEvents, TailBeginsAtTheLastEntries) {
  TestLogs logs({"workerpool0-0/0"});
  FakeJobControl control;
  control.SetLogs(kTestJob, logs.sources());
  for (int i = 0; i < 5000; ++i) logs.Write("workerpool0-0/0", i + 1, std::to_string(i));
  LogStreamRequest request;
  request.tail = 2;
  const auto events = ReadAll(control, request);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_THAT(events[0].data, HasSubstr("\"4998\""));
  LogStreamRequest resumed;
  resumed.position = events[1].id;
  EXPECT_TRUE(ReadAll(control, resumed).empty());
}

TEST(LogEvents, BadPositionsAreRefused) {
  FakeJobControl control;
  for (const std::string position :
       {"x", "!", "1!a", "1!a=", "1!=1", "1!a=-1", "1!a=0", "1!a=1x", "1!a=99999999999999999999"}) {
    LogStreamRequest request;
    request.position = position;
    const auto events = LogEvents::Open(control, request);
    ASSERT_FALSE(events.has_value()) << position;
    EXPECT_EQ(events.error().code, Code::kInvalidArgument);
  }
}

TEST(LogEvents, ADeletedJobIsNotFound) {
  FakeJobControl control;
  LogStreamRequest request;
  request.job_name = kTestJob;
  EXPECT_EQ(LogEvents::Open(control, request)->Next().error().code, Code::kNotFound);
}

TEST(LogEvents, EndAndErrorEvents) {
  EXPECT_EQ(EndEvent(4), "event: end\ndata: {\"state\":\"JOB_STATE_SUCCEEDED\"}\n\n");
  EXPECT_EQ(ErrorEvent({Code::kNotFound, "gone"}),
            "event: error\ndata: {\"error\":{\"code\":404,\"message\":\"gone\",\"status\":"
            "\"NOT_FOUND\",\"details\":[]}}\n\n");
}

// A reader that saw events up to any one goes on behind it, also if by then lines of other
// replicas with earlier times have come: nothing twice, nothing lost.
RC_GTEST_PROP(LogEvents, ResumesExactlyBehindAnyEvent, ()) {
  const std::vector<std::string> keys = {"workerpool0-0/0", "workerpool1-0/0", "workerpool1-1/1"};
  TestLogs logs(keys);
  FakeJobControl control;
  control.SetLogs(kTestJob, logs.sources());
  int line = 0;
  const auto write_some = [&] {
    const int count = *rc::gen::inRange(1, 60);
    for (int i = 0; i < count; ++i) {
      const auto& key = keys[*rc::gen::inRange<size_t>(0, keys.size())];
      if (*rc::gen::inRange(0, 10) == 0) {
        control.AddEvent({FromMicros(1'700'000'000'000'000 + line), "INFO", "service", 0,
                          fmt::format("event {}", line++)});
      } else {
        logs.Write(key, *rc::gen::inRange(1, 1000), fmt::format("line {}", line++));
      }
    }
  };
  write_some();
  const auto first = ReadAll(control, {});
  RC_ASSERT(static_cast<int>(first.size()) == line);
  const size_t cut = *rc::gen::inRange<size_t>(0, first.size());
  RC_ASSERT(!first[cut].id.empty());
  write_some();
  LogStreamRequest resumed;
  resumed.position = first[cut].id;
  auto seen = Data(first);
  seen.resize(cut + 1);
  for (auto& data : Data(ReadAll(control, resumed))) seen.push_back(std::move(data));
  std::ranges::sort(seen);
  RC_ASSERT(static_cast<int>(seen.size()) == line);
  RC_ASSERT(std::ranges::adjacent_find(seen) == seen.end());
}

TEST(LogEvents, IdsStayFewWhenThereAreManyReplicas) {
  std::vector<std::string> keys;
  for (int i = 0; i < 64; ++i) keys.push_back(fmt::format("workerpool1-{}/0", i));
  TestLogs logs(keys);
  FakeJobControl control;
  control.SetLogs(kTestJob, logs.sources());
  for (int i = 0; i < 6400; ++i) logs.Write(keys[i % 64], i + 1, std::string(80, 'x'));
  size_t text = 0;
  size_t ids = 0;
  for (const auto& event : ReadAll(control, {})) {
    text += event.data.size();
    ids += event.id.size();
  }
  EXPECT_LT(ids, text / 2);
  EXPECT_GT(ids, 0u);
}

TEST(JobViewService, PagesOfLogEntries) {
  TestLogs logs({"workerpool0-0/0"});
  FakeJobControl control;
  auto sources = logs.sources();
  control.SetLogs(kTestJob, sources);
  for (int i = 0; i < 25; ++i) logs.Write("workerpool0-0/0", i + 1, fmt::format("{}\xff", i));
  MethodTable methods;
  AddJobViewService(methods, control);
  const auto list = [&](v1::ListLogEntriesRequest request) {
    request.set_name(kTestJob);
    return methods.Find("muster.v1.JobViewService/ListLogEntries")->handle(request, {});
  };
  v1::ListLogEntriesRequest request;
  request.set_page_size(10);
  int seen = 0;
  v1::ListLogEntriesResponse page;
  do {
    const auto response = list(request);
    ASSERT_TRUE(response.has_value()) << response.error().message;
    page.CopyFrom(**response);
    for (const auto& entry : page.entries()) {
      EXPECT_EQ(entry.message(), fmt::format("{}\uFFFD", seen++));
    }
    request.set_page_token(page.next_page_token());
  } while (page.entries_size() > 0);
  EXPECT_EQ(seen, 25);
  EXPECT_FALSE(page.complete());
  sources.ended = true;
  control.SetLogs(kTestJob, sources);
  page.CopyFrom(**list(request));
  EXPECT_TRUE(page.complete());

  request.set_page_token("nonsense");
  EXPECT_EQ(list(request).error().code, Code::kInvalidArgument);
  request.clear_page_token();
  request.set_page_size(-1);
  EXPECT_THAT(list(request).error().message, HasSubstr("page_size"));
}

}  // namespace
}  // namespace muster::server
