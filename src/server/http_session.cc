#include "server/http_session.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/span_body.hpp>
#include <boost/beast/http/write.hpp>

#include "base/log.h"
#include "base/utf8.h"
#include "server/browser_guard.h"
#include "server/call.h"
#include "server/run_on.h"
#include "server/transcode/json.h"

namespace muster::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

std::string_view View(beast::string_view text) { return {text.data(), text.size()}; }

std::string PeerOf(const asio::ip::tcp::socket& socket) {
  beast::error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  if (error) return "unknown";
  return fmt::format("{}:{}", endpoint.address().to_string(), endpoint.port());
}

HttpResponse Refusal(int status, Code code, std::string message) {
  HttpResponse response = ErrorResponse(HttpError(status, Error{code, std::move(message)}));
  response.close = true;
  return response;
}

std::string_view Path(std::string_view target) { return target.substr(0, target.find('?')); }

bool WantsContinue(const http::request<http::string_body>& request) {
  return beast::iequals(request[http::field::expect], "100-continue");
}

}  // namespace

HttpResponse ErrorResponse(const HttpError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = ErrorBody(error);
  response.allow = error.allow;
  return response;
}

// What a request's body takes of the memory that all bodies share.
class HttpSession::BodyBudget {
 public:
  explicit BodyBudget(HttpShared& shared) : shared_(shared) {}
  ~BodyBudget() { shared_.bodies_bytes -= held_; }
  BodyBudget(const BodyBudget&) = delete;
  BodyBudget& operator=(const BodyBudget&) = delete;

  // False if the bodies together would be too large.
  bool GrowTo(size_t bytes) {
    if (bytes <= held_) return true;
    if (shared_.bodies_bytes + (bytes - held_) > shared_.limits.bodies_bytes_max) return false;
    shared_.bodies_bytes += bytes - held_;
    held_ = bytes;
    return true;
  }

 private:
  HttpShared& shared_;
  size_t held_ = 0;
};

HttpSession::HttpSession(asio::ip::tcp::socket socket, HttpShared& shared)
    : stream_(std::move(socket)),
      poll_timer_(stream_.get_executor()),
      buffer_(shared.limits.header_bytes_max + (64 << 10)),
      shared_(shared),
      peer_(PeerOf(stream_.socket())) {}

void HttpSession::Drain() {
  if (idle_) Close();
  poll_timer_.cancel();
}

void HttpSession::Close() {
  beast::error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.cancel();
  poll_timer_.cancel();
}

asio::awaitable<void> HttpSession::Run() {
  while (!shared_.draining) {
    idle_ = true;
    if (!co_await AwaitRequest()) break;
    idle_ = false;
    if (!co_await ServeOne()) break;
    if (buffer_.size() == 0) buffer_.shrink_to_fit();
  }
  beast::error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.close();
}

// Until the first bytes of a request are there. (A pipelined one's are already.)
asio::awaitable<bool> HttpSession::AwaitRequest() {
  if (buffer_.size() > 0) co_return true;
  constexpr size_t kFirstReadBytes = 4096;
  stream_.expires_after(shared_.limits.idle_timeout);
  const auto space = buffer_.prepare(kFirstReadBytes);
  const auto [error, size] = co_await stream_.async_read_some(space, kNoThrow);
  if (error) co_return false;
  buffer_.commit(size);
  co_return true;
}

// True if the connection can take another request.
asio::awaitable<bool> HttpSession::ServeOne() {
  Parser parser;
  parser.header_limit(static_cast<std::uint32_t>(shared_.limits.header_bytes_max));
  parser.body_limit(shared_.limits.body_bytes_max);
  BodyBudget budget(shared_);
  HttpResponse response;
  const bool complete =
      co_await ReadHeader(parser, response) && co_await ReadBody(parser, budget, response);
  if (!complete) {
    if (response.body.empty()) co_return false;  // the client is gone, or too slow
    co_await Write(response, false, 11, false);
    co_await DiscardRest();
    co_return false;
  }

  const Request request = parser.release();
  if (request.method() == http::verb::get) {
    const auto stream =
        ParseLogStreamRequest(View(request.target()), View(request["Last-Event-ID"]));
    if (stream && !*stream) {
      response = ErrorResponse(stream->error());
      co_return co_await Write(response, false, request.version(), request.keep_alive());
    }
    if (stream) co_return co_await StreamLog(request, **stream);
  }
  response = co_await Answer(request);
  const bool keep_alive = request.keep_alive() && !shared_.draining;
  co_return co_await Write(response, request.method() == http::verb::head, request.version(),
                           keep_alive);
}

asio::awaitable<bool> HttpSession::ReadHeader(Parser& parser, HttpResponse& refusal) {
  stream_.expires_after(shared_.limits.header_timeout);
  const auto [error, size] = co_await http::async_read_header(stream_, buffer_, parser, kNoThrow);
  if (!error) {
    const auto& request = parser.get();
    const Status allowed = CheckBrowser({.host = View(request[http::field::host]),
                                         .origin = View(request[http::field::origin]),
                                         .sec_fetch_site = View(request["Sec-Fetch-Site"]),
                                         .user_agent = View(request[http::field::user_agent])},
                                        shared_.own_names);
    if (allowed) co_return true;
    refusal = ErrorResponse(allowed.error());
  } else if (error == http::error::body_limit) {
    refusal = Refusal(413, Code::kInvalidArgument,
                      fmt::format("The request's body is larger than the limit of {} bytes.",
                                  shared_.limits.body_bytes_max));
  } else if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    refusal = Refusal(431, Code::kInvalidArgument,
                      fmt::format("The request's header is larger than the limit of {} bytes.",
                                  shared_.limits.header_bytes_max));
  } else if (error.category() == make_error_code(http::error::bad_method).category() &&
             error != http::error::end_of_stream && error != http::error::partial_message) {
    refusal = Refusal(400, Code::kInvalidArgument,
                      fmt::format("This is not HTTP/1.1: {}.", error.message()));
  }
  co_return false;
}

asio::awaitable<bool> HttpSession::ReadBody(Parser& parser, BodyBudget& budget,
                                            HttpResponse& refusal) {
  if (!parser.is_done() && WantsContinue(parser.get())) {
    http::response<http::empty_body> go_on(http::status::continue_, parser.get().version());
    stream_.expires_after(shared_.limits.progress_timeout);
    const auto [error, size] = co_await http::async_write(stream_, go_on, kNoThrow);
    if (error) co_return false;
  }
  while (!parser.is_done()) {
    stream_.expires_after(shared_.limits.progress_timeout);
    const auto [error, size] = co_await http::async_read_some(stream_, buffer_, parser, kNoThrow);
    if (error == http::error::body_limit) {
      refusal = Refusal(413, Code::kInvalidArgument,
                        fmt::format("The request's body is larger than the limit of {} bytes.",
                                    shared_.limits.body_bytes_max));
      co_return false;
    }
    if (error && error.category() == make_error_code(http::error::bad_method).category() &&
        error != http::error::end_of_stream && error != http::error::partial_message) {
      refusal = Refusal(400, Code::kInvalidArgument,
                        fmt::format("The request's body is malformed: {}.", error.message()));
      co_return false;
    }
    if (error) co_return false;
    if (!budget.GrowTo(parser.get().body().capacity())) {
      refusal = Refusal(503, Code::kUnavailable,
                        "The server is busy with other large requests; try again in a moment.");
      co_return false;
    }
  }
  co_return true;
}

// Takes what the client still sends for a while, so that it gets to read the answer: closing a
// socket with unread data resets the connection.
asio::awaitable<void> HttpSession::DiscardRest() {
  constexpr size_t kDiscardBytesMax = 64 << 20;
  beast::error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  stream_.expires_after(std::chrono::seconds(2));
  buffer_.clear();
  for (size_t taken = 0; taken < kDiscardBytesMax;) {
    const auto space = buffer_.prepare(16 << 10);
    const auto [error, size] = co_await stream_.async_read_some(space, kNoThrow);
    if (error) co_return;
    taken += size;
  }
}

asio::awaitable<HttpResponse> HttpSession::Answer(const Request& request) {
  const std::string_view target = View(request.target());
  const std::string_view path = Path(target);
  const bool read = request.method() == http::verb::get || request.method() == http::verb::head;
  if (path == "/healthz" && read) {
    HttpResponse response;
    response.content_type = "text/plain; charset=UTF-8";
    response.body = "ok";
    co_return response;
  }
  if (path == "/metrics" && read) {
    auto text = co_await RunOn(shared_.parts.workers, [this] {
      return shared_.parts.metrics.Text(shared_.parts.control.counts());
    });
    if (text) {
      HttpResponse response;
      response.content_type = "text/plain; version=0.0.4; charset=utf-8";
      response.body = std::move(*text);
      co_return response;
    }
    co_return ErrorResponse(Error{Code::kUnavailable, "The server is busy; try again."});
  }
  if (request.method() == http::verb::options) {
    HttpResponse response;
    response.allow = shared_.parts.transcoder.AllowedMethods(path);
    if (response.allow.empty() && path != "*") {
      co_return ErrorResponse(
          Error{Code::kNotFound, fmt::format("The path {} was not found on this server.",
                                             ToValidUtf8(path.substr(0, 500)))});
    }
    response.status = 204;
    response.allow += response.allow.empty() ? "OPTIONS" : ", OPTIONS";
    co_return response;
  }
  co_return co_await CallMethod(request);
}

asio::awaitable<HttpResponse> HttpSession::CallMethod(const Request& request) {
  auto response =
      co_await RunOn(shared_.parts.workers, [this, &request] { return CallMethodNow(request); });
  if (response) co_return std::move(*response);
  shared_.parts.metrics.CountCall(Metrics::Door::kRest, "", Code::kUnavailable, {});
  co_return ErrorResponse(
      Error{Code::kUnavailable, "The server is busy with other requests; try again in a moment."});
}

// On a worker thread.
HttpResponse HttpSession::CallMethodNow(const Request& request) {
  const auto start = std::chrono::steady_clock::now();
  const std::string_view method = View(request.method_string());
  auto call = shared_.parts.transcoder.Read({.http_method = method == "HEAD" ? "GET" : method,
                                             .target = View(request.target()),
                                             .body = request.body()});
  const auto finish = [&](const std::string& name, HttpResponse response, Code code) {
    shared_.parts.metrics.CountCall(Metrics::Door::kRest, name, code,
                                    std::chrono::steady_clock::now() - start);
    return response;
  };
  if (!call) return finish("", ErrorResponse(call.error()), call.error().error.code);

  const CallContext context{call->method_name, peer_};
  const auto answer = RunCall(*call->method, *call->request, context);
  auto json = answer ? WriteJson(**answer, call->style)
                     : Result<std::string>(std::unexpected(answer.error()));
  if (!json) {
    return finish(call->method_name, ErrorResponse(json.error()), json.error().code);
  }
  HttpResponse response;
  response.body = std::move(*json);
  return finish(call->method_name, std::move(response), Code::kOk);
}

// True if the connection stays open.
asio::awaitable<bool> HttpSession::Write(const HttpResponse& response, bool head, unsigned version,
                                         bool keep_alive) {
  keep_alive = keep_alive && !response.close;
  http::response<http::span_body<const char>> message;
  message.version(version);
  message.result(static_cast<unsigned>(response.status));
  message.set(http::field::server, "muster");
  if (!response.allow.empty()) message.set(http::field::allow, response.allow);
  message.keep_alive(keep_alive);
  if (response.status != 204) {
    message.set(http::field::content_type, response.content_type);
    message.set(http::field::cache_control, "no-store");
    message.set("X-Content-Type-Options", "nosniff");
    message.content_length(response.body.size());
  }
  if (!head) message.body() = {response.body.data(), response.body.size()};
  http::response_serializer<http::span_body<const char>> serializer(message);
  if (head) serializer.split(true);
  while (head ? !serializer.is_header_done() : !serializer.is_done()) {
    stream_.expires_after(shared_.limits.progress_timeout);
    const auto [error, size] = co_await http::async_write_some(stream_, serializer, kNoThrow);
    if (error) co_return false;
  }
  co_return keep_alive;
}

}  // namespace muster::server
