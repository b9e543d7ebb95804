// A small blocking HTTP/1.1 client with deadlines, for the command line and the agent.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"

namespace muster::http {

struct Endpoint {
  std::string host;  // "127.0.0.1"
  std::string port;
};

// "127.0.0.1:8080", "http://127.0.0.1:8080", "[::1]:8080". INVALID_ARGUMENT otherwise.
Result<Endpoint> ParseEndpoint(std::string_view text);

// <data-dir>/musterd.json: {"address":"127.0.0.1:8080","pid":…}.
Result<Endpoint> ReadEndpointFile(const std::string& path);

struct Request {
  std::string method = "GET";
  std::string target = {};          // path and query, percent-encoded
  std::string body = {};            // sent as application/json if not empty
  std::string headers_accept = {};  // empty: application/json, or text/event-stream of a stream
  std::string last_event_id = {};   // for streams
};

struct Response {
  int status = 0;
  std::string body;
};

// One connection, kept open between calls. Where the server closed it meanwhile, it is made anew; a
// request that may have reached the server is sent again only if it is a GET. Answers are at most
// 64 MB. Not thread-safe.
class Client {
 public:
  explicit Client(Endpoint endpoint);
  ~Client();

  // UNAVAILABLE if nothing answers there, DEADLINE_EXCEEDED after `timeout`.
  Result<Response> Call(const Request& request, std::chrono::milliseconds timeout);

  // Server-sent events, until the stream ends, `on_event` returns false, or nothing (not even a
  // comment) comes for `silence`: DEADLINE_EXCEEDED. UNAVAILABLE if the connection breaks: go on
  // with last_event_id. A non-200 answer comes back as Response. `on_event` must not use the
  // client.
  struct ServerEvent {
    std::string id;  // the last one that came, also if this event has none
    std::string event;
    std::string data;
  };
  Result<Response> Stream(const Request& request, std::chrono::milliseconds silence,
                          const std::function<bool(const ServerEvent&)>& on_event);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The Error in a JSON error envelope, or one made from the status.
Error ErrorOfResponse(const Response& response);

}  // namespace muster::http
