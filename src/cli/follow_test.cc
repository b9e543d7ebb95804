// Watching a job through a server that misbehaves.
#include "cli/follow.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "cli/endpoint.h"
#include "cli/fake_server.h"
#include "cli/testing.h"

namespace muster::cli {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr const char* kName = "projects/p/locations/r/customJobs/1";
constexpr const char* kEnd = "event: end\ndata: {\"state\":\"JOB_STATE_SUCCEEDED\"}\n\n";

json Entry(const std::string& message, const std::string& task = "workerpool0-0") {
  return {{"timestamp", "2026-11-20T17:36:26Z"}, {"taskName", task}, {"message", message}};
}

bool IsStream(const FakeRequest& request) {
  return request.target.find("/logs:stream") != std::string::npos;
}

class FollowTest : public testing::Test {
 protected:
  FollowTest() {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
    options_.reader.retry_first = milliseconds(5);
    options_.reader.retry_most = milliseconds(20);
    options_.reader.give_up = milliseconds(30'000);
  }

  void Announce(const FakeServer& server) {
    const json content = {{"address", server.address()}, {"pid", ::getpid()}};
    ASSERT_TRUE(WriteFileAtomic(directory_.path() / "musterd.json", content.dump()).has_value());
  }

  Result<Followed> Follow() {
    Api api([directory = directory_.path().string()]() -> Result<http::Endpoint> {
      MUSTER_ASSIGN(const FoundEndpoint found, FindEndpoint({{"MUSTER_DATA_DIR", directory}}, ""));
      return found.endpoint;
    });
    return FollowJob(world_.context, api, kName, options_);
  }

  std::string Lines(const std::vector<std::string>& messages) const {
    std::string text;
    for (const auto& message : messages) text += "17:36:26.000 workerpool0-0 | " + message + "\n";
    return text;
  }

  TemporaryDirectory directory_;
  FakeWorld world_;
  FollowOptions options_;
};

TEST_F(FollowTest, ShowsTheLogUntilTheJobEnds) {
  FakeServer server([](const FakeRequest& request, FakeAnswer& answer) {
    EXPECT_EQ(request.target, std::string("/muster/v1/") + kName + "/logs:stream");
    answer.BeginStream();
    answer.Raw(": hello\n\n");
    answer.LogEvent("1", Entry("one"));
    answer.LogEvent("2", Entry("two"));
    answer.Raw(kEnd);
  });
  Announce(server);
  const auto followed = Follow();
  ASSERT_TRUE(followed.has_value());
  EXPECT_EQ(followed->end, FollowEnd::kJobEnded);
  EXPECT_EQ(world_.out.text(), Lines({"one", "two"}));
  EXPECT_EQ(world_.err.text(), "");
}

TEST_F(FollowTest, OnlyTheTaskThatWasAskedFor) {
  FakeServer server([](const FakeRequest& request, FakeAnswer& answer) {
    EXPECT_TRUE(request.target.ends_with("?taskName=workerpool0-0"));
    answer.BeginStream();
    answer.LogEvent("1", Entry("mine"));
    answer.LogEvent("2", Entry("other", "workerpool1-0"));
    answer.Raw(kEnd);
  });
  Announce(server);
  options_.task_name = "workerpool0-0";
  ASSERT_TRUE(Follow().has_value());
  EXPECT_EQ(world_.out.text(), Lines({"mine"}));
}

TEST_F(FollowTest, JsonIsOneEntryALine) {
  FakeServer server([](const FakeRequest&, FakeAnswer& answer) {
    answer.BeginStream();
    answer.LogEvent("1", Entry("a\nb"));
    answer.Raw(kEnd);
  });
  Announce(server);
  options_.as_json = true;
  ASSERT_TRUE(Follow().has_value());
  EXPECT_EQ(world_.out.text(), Entry("a\nb").dump() + "\n");
}

TEST_F(FollowTest, CallsFindAMusterdThatHasMoved) {
  std::optional<FakeServer> server;
  const auto answer = [](const FakeRequest& request, FakeAnswer& answer) {
    answer.Json({{"method", request.method}});
  };
  server.emplace(answer);
  Announce(*server);
  Api api([directory = directory_.path().string()]() -> Result<http::Endpoint> {
    MUSTER_ASSIGN(const FoundEndpoint found, FindEndpoint({{"MUSTER_DATA_DIR", directory}}, ""));
    return found.endpoint;
  });
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(api.Get("/x").has_value());
    EXPECT_TRUE(api.Post("/x:cancel", json::object()).has_value());
    FakeServer next(answer);  // takes another port, since the first is still taken
    server.reset();
    Announce(next);
    EXPECT_TRUE(api.Post("/x:cancel", json::object()).has_value());
    EXPECT_TRUE(api.Get("/x").has_value());
    server.emplace(answer);
    Announce(*server);
  }
}

// musterd is killed in the middle of the log, and comes back on another port.
TEST_F(FollowTest, GoesOnBehindTheLastEventAfterARestart) {
  std::optional<FakeServer> first;
  std::optional<FakeServer> second;
  std::thread restart;
  std::atomic<bool> sent = false;
  first.emplace([&](const FakeRequest& request, FakeAnswer& answer) {
    if (!IsStream(request)) return;
    answer.BeginStream();
    answer.LogEvent("1", Entry("one"));
    answer.LogEvent("2", Entry("two"));
    answer.Raw("id: 3\nevent: log\ndata: {\"mess");  // cut in the middle of an event
    sent = true;
    sent.notify_all();
    while (!first->stopping()) std::this_thread::yield();
  });
  Announce(*first);
  restart = std::thread([&] {
    sent.wait(false);
    first.reset();
    second.emplace([](const FakeRequest& request, FakeAnswer& answer) {
      if (!IsStream(request)) return answer.Json({{"state", "JOB_STATE_RUNNING"}});
      EXPECT_EQ(request.last_event_id, "2");
      answer.BeginStream();
      answer.LogEvent("3", Entry("three"));
      answer.Raw(kEnd);
    });
    Announce(*second);
  });
  const auto followed = Follow();
  restart.join();
  ASSERT_TRUE(followed.has_value()) << followed.error().message;
  EXPECT_EQ(followed->end, FollowEnd::kJobEnded);
  EXPECT_EQ(world_.out.text(), Lines({"one", "two", "three"}));
}

TEST_F(FollowTest, SaysThatMusterdIsAwayAndBack) {
  std::atomic<int> calls = 0;
  FakeServer server([&](const FakeRequest& request, FakeAnswer& answer) {
    const int call = ++calls;
    if (call == 1) {
      answer.BeginStream();
      answer.LogEvent("1", Entry("one"));
      return answer.Raw("broken");
    }
    if (call < 6) return answer.Error(503, "UNAVAILABLE", "starting");
    if (!IsStream(request)) return answer.Json({{"state", "JOB_STATE_RUNNING"}});
    answer.BeginStream();
    answer.Raw(kEnd);
  });
  Announce(server);
  ASSERT_TRUE(Follow().has_value());
  EXPECT_EQ(world_.err.text(),
            "musterd does not answer; trying again for 30 s. The job goes on.\n"
            "musterd is back.\n");
}

TEST_F(FollowTest, GivesUpAfterAWhile) {
  FakeServer server([](const FakeRequest& request, FakeAnswer& answer) {
    if (!IsStream(request)) return answer.Error(503, "UNAVAILABLE", "no");
    answer.BeginStream();
    answer.LogEvent("1", Entry("one"));
    answer.Raw("broken");
  });
  Announce(server);
  options_.reader.give_up = milliseconds(50);
  const auto followed = Follow();
  ASSERT_FALSE(followed.has_value());
  EXPECT_EQ(followed.error().code, Code::kUnavailable);
  EXPECT_NE(followed.error().message.find("stream-logs projects/p"), std::string::npos);
  EXPECT_EQ(world_.out.text().substr(0, Lines({"one"}).size()), Lines({"one"}));
}

TEST_F(FollowTest, AStreamThatJustEndsIsCheckedAgainstTheJob) {
  std::atomic<int> streams = 0;
  FakeServer server([&](const FakeRequest& request, FakeAnswer& answer) {
    if (!IsStream(request)) return answer.Json({{"state", "JOB_STATE_FAILED"}});
    answer.BeginStream();
    if (++streams == 1) answer.LogEvent("1", Entry("one"));
  });
  Announce(server);
  ASSERT_TRUE(Follow().has_value());
  EXPECT_EQ(world_.out.text(), Lines({"one"}));
  EXPECT_EQ(streams, 2);
}

TEST_F(FollowTest, AJobThatIsDeletedEndsTheWatching) {
  FakeServer server([](const FakeRequest&, FakeAnswer& answer) {
    answer.BeginStream();
    answer.LogEvent("1", Entry("one"));
    answer.Raw(
        "event: error\ndata: {\"error\":{\"code\":404,\"message\":\"the job is gone\","
        "\"status\":\"NOT_FOUND\"}}\n\n");
  });
  Announce(server);
  const auto followed = Follow();
  ASSERT_FALSE(followed.has_value());
  EXPECT_EQ(followed.error().message, "the job is gone");
  EXPECT_EQ(world_.out.text(), Lines({"one"}));
}

TEST_F(FollowTest, ARefusalIsTheServersError) {
  FakeServer server([](const FakeRequest&, FakeAnswer& answer) {
    answer.Error(400, "INVALID_ARGUMENT", "no such task");
  });
  Announce(server);
  EXPECT_EQ(Follow().error().message, "no such task");
}

TEST_F(FollowTest, CtrlCStopsWatching) {
  const pthread_t main_thread = ::pthread_self();
  FakeServer server([&](const FakeRequest& request, FakeAnswer& answer) {
    if (!IsStream(request)) return answer.Json({{"state", "JOB_STATE_RUNNING"}});
    answer.BeginStream();
    answer.LogEvent("1", Entry("one"));
    ::pthread_kill(main_thread, SIGINT);
    while (!server.stopping()) std::this_thread::yield();
  });
  Announce(server);
  const auto followed = Follow();
  ASSERT_TRUE(followed.has_value());
  EXPECT_EQ(followed->end, FollowEnd::kInterrupted);
  EXPECT_FALSE(followed->cancel_requested);
}

TEST_F(FollowTest, CtrlCCancelsAndGoesOnWatching) {
  const pthread_t main_thread = ::pthread_self();
  std::atomic<bool> cancelled = false;
  FakeServer server([&](const FakeRequest& request, FakeAnswer& answer) {
    if (request.target == std::string("/v1/") + kName + ":cancel") {
      answer.Json(json::object());
      cancelled = true;
      return;
    }
    if (!IsStream(request)) return answer.Json({{"state", "JOB_STATE_RUNNING"}});
    answer.BeginStream();
    answer.LogEvent("1", Entry("one"));
    ::pthread_kill(main_thread, SIGINT);
    while (!cancelled && !server.stopping()) std::this_thread::yield();
    answer.LogEvent("2", Entry("ending"));
    answer.Raw(kEnd);
  });
  Announce(server);
  options_.cancel_on_interrupt = true;
  const auto followed = Follow();
  ASSERT_TRUE(followed.has_value());
  EXPECT_EQ(followed->end, FollowEnd::kJobEnded);
  EXPECT_TRUE(followed->cancel_requested);
  EXPECT_EQ(world_.out.text(), Lines({"one", "ending"}));
}

TEST_F(FollowTest, ASecondCtrlCStopsWatching) {
  const pthread_t main_thread = ::pthread_self();
  FakeServer server([&](const FakeRequest& request, FakeAnswer& answer) {
    if (request.target.ends_with(":cancel")) {
      answer.Json(json::object());
      ::pthread_kill(main_thread, SIGINT);
      return;
    }
    if (!IsStream(request)) return answer.Json({{"state", "JOB_STATE_RUNNING"}});
    answer.BeginStream();
    ::pthread_kill(main_thread, SIGINT);
    while (!server.stopping()) std::this_thread::yield();
  });
  Announce(server);
  options_.cancel_on_interrupt = true;
  const auto followed = Follow();
  ASSERT_TRUE(followed.has_value());
  EXPECT_EQ(followed->end, FollowEnd::kInterrupted);
  EXPECT_TRUE(followed->cancel_requested);
}

TEST_F(FollowTest, TellsOnceWhyTheJobWaits) {
  std::atomic<int> views = 0;
  FakeServer server([&](const FakeRequest& request, FakeAnswer& answer) {
    if (IsStream(request)) {
      answer.BeginStream();
      while (views < 2 && !server.stopping()) std::this_thread::yield();
      return answer.Raw(kEnd);
    }
    ++views;
    answer.Json({{"state", "JOB_STATE_QUEUED"}, {"waitingReason", "job 7 holds all 4 cores"}});
  });
  Announce(server);
  options_.waiting_poll = milliseconds(10);
  ASSERT_TRUE(Follow().has_value());
  EXPECT_EQ(world_.err.text(), "Waiting: job 7 holds all 4 cores\n");
}

TEST_F(FollowTest, AFloodIsShownWholeAndInOrder) {
  constexpr int kEntries = 15'000;
  FakeServer server([](const FakeRequest& request, FakeAnswer& answer) {
    if (!IsStream(request)) return answer.Json({{"state", "JOB_STATE_RUNNING"}});
    answer.BeginStream();
    for (int i = 0; i < kEntries; i += 100) {
      std::string text;
      for (int j = i; j < i + 100; ++j) {
        text +=
            fmt::format("id: {}\ndata: {{\"message\":\"{}{}\"}}\n\n", j, j, std::string(300, 'x'));
      }
      answer.Raw(text);
    }
    answer.Raw(kEnd);
  });
  Announce(server);
  ASSERT_TRUE(Follow().has_value());
  std::string_view text = world_.out.text();
  for (int i = 0; i < kEntries; ++i) {
    const size_t end = text.find('\n');
    ASSERT_NE(end, std::string_view::npos) << i;
    ASSERT_NE(text.substr(0, end).find(fmt::format("| {}x", i)), std::string_view::npos) << i;
    text.remove_prefix(end + 1);
  }
  EXPECT_EQ(text, "");
}

}  // namespace
}  // namespace muster::cli
