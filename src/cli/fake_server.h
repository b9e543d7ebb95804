// An HTTP server in the test's own process, on a port of its own, that answers as the test says.
#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/thread_annotations.h"

namespace muster::cli {

struct FakeRequest {
  std::string method;
  std::string target;
  std::string body;
  std::string last_event_id;
};

// One connection's answer: a response, or the begin of a stream and its events.
class FakeAnswer {
 public:
  explicit FakeAnswer(int fd) : fd_(fd) {}
  void Json(const nlohmann::json& body, int status = 200);
  void Text(std::string_view body);
  void Error(int status, std::string_view name, std::string_view message);
  void BeginStream();
  // Any text of a stream, or broken bytes.
  void Raw(std::string_view text);
  void LogEvent(std::string_view id, const nlohmann::json& entry);

 private:
  int fd_;
};

class FakeServer {
 public:
  // Called on a thread of the connection; the connection is closed when it returns.
  using Handler = std::function<void(const FakeRequest&, FakeAnswer&)>;

  explicit FakeServer(Handler handler);
  ~FakeServer();  // closes every connection

  std::string address() const;  // "127.0.0.1:41234"
  std::vector<FakeRequest> requests() const;
  // Lets handlers that stream forever know. Thread-safe.
  bool stopping() const { return stopping_; }

 private:
  void Accept();
  void Serve(int fd);

  Handler handler_;
  UniqueFd listener_;
  int port_ = 0;
  std::atomic<bool> stopping_ = false;
  mutable Mutex mutex_;
  std::vector<FakeRequest> requests_ GUARDED_BY(mutex_);
  std::vector<int> connections_ GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ GUARDED_BY(mutex_);
  std::thread acceptor_;
};

}  // namespace muster::cli
