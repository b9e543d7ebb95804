// One HTTP/1.1 connection. Internal to http_door.cc; all of it runs on the loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <string>

#include "server/http_door.h"
#include "server/log_events.h"

namespace muster::server {

// What the sessions have in common.
struct HttpShared {
  const HttpDoor::Parts parts;
  const HttpLimits limits;
  const std::vector<std::string> own_names;
  bool draining = false;
  size_t bodies_bytes = 0;
  size_t log_readers = 0;
};

// What a route makes of a request, to be written by the session.
struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json; charset=UTF-8";
  std::string body;
  std::string allow;   // the header's value, if any
  bool close = false;  // end the connection behind it: the request was not read to its end
};
HttpResponse ErrorResponse(const HttpError& error);

class HttpSession {
 public:
  HttpSession(boost::asio::ip::tcp::socket socket, HttpShared& shared);

  // Until the connection ends.
  boost::asio::awaitable<void> Run();

  // Ends the connection if it is idle, a live log if one is sent, else after the answer.
  void Drain();
  void Close();

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Request = boost::beast::http::request<boost::beast::http::string_body>;
  class BodyBudget;

  boost::asio::awaitable<bool> AwaitRequest();
  boost::asio::awaitable<bool> ServeOne();
  boost::asio::awaitable<bool> ReadHeader(Parser& parser, HttpResponse& refusal);
  boost::asio::awaitable<bool> ReadBody(Parser& parser, BodyBudget& budget, HttpResponse& refusal);
  boost::asio::awaitable<HttpResponse> Answer(const Request& request);
  boost::asio::awaitable<HttpResponse> CallMethod(const Request& request);
  HttpResponse CallMethodNow(const Request& request);
  boost::asio::awaitable<bool> Write(const HttpResponse& response, bool head, unsigned version,
                                     bool keep_alive);
  boost::asio::awaitable<void> DiscardRest();

  // Live logs: log_stream.cc. False if the connection is to be closed.
  boost::asio::awaitable<bool> StreamLog(const Request& request, const LogStreamRequest& wanted);
  boost::asio::awaitable<bool> SendEvents(LogEvents events, LogEvents::Batch batch, bool chunked);
  boost::asio::awaitable<bool> WriteEvents(std::string_view text, bool chunked);
  bool PeerIsGone();

  boost::beast::tcp_stream stream_;
  boost::asio::steady_timer poll_timer_;
  boost::beast::flat_buffer buffer_;
  HttpShared& shared_;
  const std::string peer_;
  bool idle_ = true;
};

// The live log that a request asks for; nothing if it asks for something else.
std::optional<Result<LogStreamRequest>> ParseLogStreamRequest(std::string_view target,
                                                              std::string_view last_event_id);

}  // namespace muster::server
