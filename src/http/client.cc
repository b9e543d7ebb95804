// Blocking calls made of asynchronous operations: each starts on a context of the client's own,
// which then runs until the operation is done. Beast's timers, which only asynchronous operations
// have, thereby bound every step.
#include "http/client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <optional>

#include "http/event_stream.h"

namespace muster::http {

namespace {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr size_t kResponseBytesMax = 64 << 20;
constexpr std::chrono::seconds kStreamConnectTimeout(10);

// The peer went away: on a kept connection, probably before it saw the request.
bool IsConnectionLost(const error_code& error) {
  return error == bhttp::error::end_of_stream || error == asio::error::eof ||
         error == asio::error::connection_reset || error == asio::error::broken_pipe ||
         error == asio::error::connection_aborted;
}

bool MayBeRepeated(const std::string& method) { return method == "GET" || method == "HEAD"; }

std::string HostHeader(const Endpoint& endpoint) {
  const bool is_ipv6 = endpoint.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", is_ipv6 ? "[" : "", endpoint.host, is_ipv6 ? "]" : "",
                     endpoint.port);
}
}  // namespace

struct Client::Impl {
  explicit Impl(Endpoint to) : endpoint(std::move(to)) {}

  // Runs until what was started is done; everything started has a timer.
  void Run() {
    context.restart();
    context.run();
  }

  error_code Resolve(SteadyTime deadline, tcp::resolver::results_type& found);
  error_code Connect(SteadyTime deadline);
  bool IsOpen();
  void Close();

  bhttp::request<bhttp::string_body> MakeRequest(const Request& request) const;
  error_code Send(const bhttp::request<bhttp::string_body>& request, SteadyTime deadline);
  template <typename Parser>
  error_code ReadHeader(Parser& parser, SteadyTime deadline);
  error_code ReadBody(bhttp::response_parser<bhttp::string_body>& parser, SteadyTime deadline);
  // Sends and reads the header, with one repetition if a kept connection turns out to be closed.
  template <typename Parser>
  Status Exchange(const Request& request, std::optional<Parser>& parser, SteadyTime deadline);

  std::unexpected<Error> Failure(const error_code& error, std::string_view what);

  const Endpoint endpoint;
  asio::io_context context;
  std::optional<beast::tcp_stream> stream;
  beast::flat_buffer buffer;
};

error_code Client::Impl::Resolve(SteadyTime deadline, tcp::resolver::results_type& found) {
  error_code result;
  tcp::resolver resolver(context);
  // Addresses take no thread and no name server.
  const auto address = asio::ip::make_address(endpoint.host, result);
  uint16_t port = 0;
  std::from_chars(endpoint.port.data(), endpoint.port.data() + endpoint.port.size(), port);
  if (!result && port != 0) {
    found = tcp::resolver::results_type::create(tcp::endpoint(address, port), endpoint.host,
                                                endpoint.port);
    return {};
  }
  asio::steady_timer timer(context, deadline);
  timer.async_wait([&](error_code error) {
    if (!error) resolver.cancel();
  });
  resolver.async_resolve(endpoint.host, endpoint.port,
                         [&](error_code error, tcp::resolver::results_type results) {
                           result = error;
                           found = std::move(results);
                           timer.cancel();
                         });
  Run();
  return result == asio::error::operation_aborted ? beast::error::timeout : result;
}

error_code Client::Impl::Connect(SteadyTime deadline) {
  Close();
  tcp::resolver::results_type found;
  if (const error_code error = Resolve(deadline, found)) return error;
  error_code result;
  stream.emplace(context);
  stream->expires_at(deadline);
  stream->async_connect(found, [&](error_code error, const tcp::endpoint&) { result = error; });
  Run();
  if (result) {
    Close();
    return result;
  }
  error_code ignored;
  stream->socket().set_option(tcp::no_delay(true), ignored);
  return {};
}

// False as well if the server has closed its end of a kept connection.
bool Client::Impl::IsOpen() {
  if (!stream || !stream->socket().is_open()) return false;
  char byte = 0;
  const ssize_t got = ::recv(stream->socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  // Bytes that nobody asked for are no good sign either.
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

void Client::Impl::Close() {
  stream.reset();
  buffer.clear();
}

bhttp::request<bhttp::string_body> Client::Impl::MakeRequest(const Request& request) const {
  bhttp::request<bhttp::string_body> message;
  message.version(11);
  message.method_string(request.method);
  message.target(request.target);
  message.set(bhttp::field::host, HostHeader(endpoint));
  message.set(bhttp::field::user_agent, "muster");
  message.set(bhttp::field::accept,
              request.headers_accept.empty() ? "application/json" : request.headers_accept);
  if (!request.last_event_id.empty()) message.set("Last-Event-ID", request.last_event_id);
  if (!request.body.empty()) {
    message.set(bhttp::field::content_type, "application/json");
    message.body() = request.body;
  }
  message.prepare_payload();
  return message;
}

error_code Client::Impl::Send(const bhttp::request<bhttp::string_body>& request,
                              SteadyTime deadline) {
  error_code result;
  stream->expires_at(deadline);
  bhttp::async_write(*stream, request, [&](error_code error, size_t) { result = error; });
  Run();
  return result;
}

template <typename Parser>
error_code Client::Impl::ReadHeader(Parser& parser, SteadyTime deadline) {
  error_code result;
  stream->expires_at(deadline);
  bhttp::async_read_header(*stream, buffer, parser,
                           [&](error_code error, size_t) { result = error; });
  Run();
  return result;
}

error_code Client::Impl::ReadBody(bhttp::response_parser<bhttp::string_body>& parser,
                                  SteadyTime deadline) {
  error_code result;
  stream->expires_at(deadline);
  bhttp::async_read(*stream, buffer, parser, [&](error_code error, size_t) { result = error; });
  Run();
  return result;
}

template <typename Parser>
Status Client::Impl::Exchange(const Request& request, std::optional<Parser>& parser,
                              SteadyTime deadline) {
  const auto message = MakeRequest(request);
  for (int attempt = 0;; ++attempt) {
    const bool reused = IsOpen();
    if (!reused) {
      if (const error_code error = Connect(deadline)) return Failure(error, "connect to");
    }
    parser.emplace();
    parser->body_limit(kResponseBytesMax);
    parser->skip(request.method == "HEAD");
    error_code error = Send(message, deadline);
    // A server may answer and close without reading all of the request.
    const bool may_have_answered = !error || IsConnectionLost(error);
    if (may_have_answered) {
      const error_code read_error = ReadHeader(*parser, deadline);
      if (!read_error) return {};
      if (!error) error = read_error;
    }
    const bool nothing_came = !parser->got_some();
    Close();
    const bool again = reused && attempt == 0 && nothing_came && IsConnectionLost(error) &&
                       MayBeRepeated(request.method);
    if (!again) return Failure(error, "talk to");
  }
}

std::unexpected<Error> Client::Impl::Failure(const error_code& error, std::string_view what) {
  Close();
  const std::string who = HostHeader(endpoint);
  if (error == beast::error::timeout) {
    return Fail(Code::kDeadlineExceeded, "{} did not answer in time", who);
  }
  if (error == bhttp::error::body_limit || error == bhttp::error::header_limit) {
    return Fail(Code::kResourceExhausted, "{}'s answer is too large (more than {} MB)", who,
                kResponseBytesMax >> 20);
  }
  if (error == asio::error::connection_refused) {
    return Fail(Code::kUnavailable, "nothing answers at {}: connection refused", who);
  }
  if (IsConnectionLost(error) || error == bhttp::error::partial_message) {
    return Fail(Code::kUnavailable, "{} closed the connection before its answer was complete", who);
  }
  if (error.category() == bhttp::make_error_code(bhttp::error::bad_version).category()) {
    return Fail(Code::kUnavailable, "what answers at {} does not speak HTTP: {}", who,
                error.message());
  }
  return Fail(Code::kUnavailable, "cannot {} {}: {}", what, who, error.message());
}

Client::Client(Endpoint endpoint) : impl_(std::make_unique<Impl>(std::move(endpoint))) {}
Client::~Client() = default;

Result<Response> Client::Call(const Request& request, std::chrono::milliseconds timeout) {
  const SteadyTime deadline = std::chrono::steady_clock::now() + timeout;
  std::optional<bhttp::response_parser<bhttp::string_body>> parser;
  MUSTER_TRY(impl_->Exchange(request, parser, deadline));
  if (const error_code error = impl_->ReadBody(*parser, deadline)) {
    return impl_->Failure(error, "read the answer of");
  }
  if (!parser->keep_alive()) impl_->Close();
  auto& message = parser->get();
  return Response{int(message.result_int()), std::move(message.body())};
}

Result<Response> Client::Stream(const Request& request, std::chrono::milliseconds silence,
                                const std::function<bool(const ServerEvent&)>& on_event) {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto first = std::min<std::chrono::milliseconds>(silence, kStreamConnectTimeout);
  Request asked = request;
  if (asked.headers_accept.empty()) asked.headers_accept = "text/event-stream";
  std::optional<bhttp::response_parser<bhttp::buffer_body>> parser;
  MUSTER_TRY(impl_->Exchange(asked, parser, now() + first));

  const int status = int(parser->get().result_int());
  if (status != 200) {
    bhttp::response_parser<bhttp::string_body> whole(std::move(*parser));
    if (const error_code error = impl_->ReadBody(whole, now() + first)) {
      return impl_->Failure(error, "read the answer of");
    }
    impl_->Close();
    return Response{status, std::move(whole.get().body())};
  }

  parser->body_limit(boost::none);
  EventStreamParser events;
  char piece[16 * 1024];
  while (!parser->is_done()) {
    auto& body = parser->get().body();
    body.data = piece;
    body.size = sizeof piece;
    error_code error;
    impl_->stream->expires_after(silence);
    bhttp::async_read_some(*impl_->stream, impl_->buffer, *parser,
                           [&](error_code result, size_t) { error = result; });
    impl_->Run();
    if (error == bhttp::error::need_buffer) error = {};
    if (error) return impl_->Failure(error, "read the stream of");
    if (!events.Feed({piece, sizeof piece - body.size}, on_event)) break;
    if (events.pending_bytes() > kResponseBytesMax) {
      return impl_->Failure(bhttp::error::body_limit, "");
    }
  }
  impl_->Close();  // a stream that was left is of no more use, and servers close theirs
  return Response{status, ""};
}

}  // namespace muster::http
