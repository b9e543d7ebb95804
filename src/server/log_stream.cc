// Live logs over HTTP: GET /muster/v1/{name}/logs:stream, as server-sent events.
//
// Back-pressure is the socket's: the next page is read from disk only when the last one has been
// written, so that a reader costs at most one page of memory.
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_suffix.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/write.hpp>
#include <cerrno>
#include <charconv>

#include "base/utf8.h"
#include "server/http_session.h"
#include "server/resource_name.h"
#include "server/run_on.h"
#include "server/transcode/percent.h"
#include "server/transcode/query.h"

namespace muster::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
constexpr std::string_view kPrefix = "/muster/v1/";
constexpr std::string_view kSuffix = "/logs:stream";
// A job that logged nothing for so long is looked at less often.
constexpr auto kQuietAfter = std::chrono::seconds(10);

Result<LogStreamRequest> ReadParameters(std::string_view name, std::string_view query,
                                        std::string_view last_event_id) {
  LogStreamRequest wanted;
  const auto decoded = PercentDecode(name, PercentRule::kAll);
  if (!decoded) return Fail(Code::kInvalidArgument, "The path has a malformed percent-encoding");
  wanted.job_name = *decoded;
  MUSTER_TRY(CheckName("name", wanted.job_name, kCustomJobPattern));
  MUSTER_ASSIGN(QueryParameters parameters, ParseQuery(query));
  MUSTER_TRY(TakeSystemParameters(parameters));
  for (const auto& [key, value] : parameters) {
    if (key == "taskName" || key == "task_name") {
      wanted.task_name = value;
    } else if (key == "lastEventId" || key == "pageToken" || key == "page_token") {
      wanted.position = value;
    } else if (key == "tail") {
      const auto [end, error] =
          std::from_chars(value.data(), value.data() + value.size(), wanted.tail);
      if (error != std::errc() || end != value.data() + value.size() || wanted.tail < 0 ||
          wanted.tail > LogEvents::kTailMax) {
        return Fail(Code::kInvalidArgument, "Invalid value at 'tail', \"{}\": give 0 to {}",
                    ToValidUtf8(value), LogEvents::kTailMax);
      }
    } else {
      return Fail(Code::kInvalidArgument,
                  "Unknown parameter \"{}\": a log stream takes taskName, tail, lastEventId and "
                  "pageToken",
                  ToValidUtf8(key));
    }
  }
  // What a reconnecting client says itself is newer than what its URL says.
  if (!last_event_id.empty()) wanted.position = last_event_id;
  return wanted;
}

}  // namespace

std::optional<Result<LogStreamRequest>> ParseLogStreamRequest(std::string_view target,
                                                              std::string_view last_event_id) {
  const size_t question = target.find('?');
  std::string_view path = target.substr(0, question);
  if (!path.starts_with(kPrefix) || !path.ends_with(kSuffix) ||
      path.size() <= kPrefix.size() + kSuffix.size()) {
    return std::nullopt;
  }
  path.remove_prefix(kPrefix.size());
  path.remove_suffix(kSuffix.size());
  return ReadParameters(path, question == std::string_view::npos ? "" : target.substr(question + 1),
                        last_event_id);
}

asio::awaitable<bool> HttpSession::StreamLog(const Request& request,
                                             const LogStreamRequest& wanted) {
  const auto busy = [] {
    return Error{Code::kUnavailable, "Too many logs are being read; try again in a moment."};
  };
  if (shared_.log_readers >= shared_.limits.log_readers_max) {
    const HttpResponse response = ErrorResponse(busy());
    co_return co_await Write(response, false, request.version(), request.keep_alive());
  }

  // The first page is read before the header is sent, so that a wrong name is a plain 404.
  auto opened = LogEvents::Open(shared_.parts.control, wanted);
  std::optional<Result<LogEvents::Batch>> first;
  if (opened) {
    first = co_await RunOn(shared_.parts.log_workers, [&opened] { return opened->Next(); });
  }
  if (!opened || !first || !*first) {
    const Error error = !opened ? opened.error() : !first ? busy() : first->error();
    const HttpResponse response = ErrorResponse(error);
    co_return co_await Write(response, false, request.version(), request.keep_alive());
  }

  const bool chunked = request.version() >= 11;
  http::response<http::empty_body> header(http::status::ok, request.version());
  header.set(http::field::server, "muster");
  header.set(http::field::content_type, "text/event-stream");
  header.set(http::field::cache_control, "no-store");
  header.set("X-Content-Type-Options", "nosniff");
  header.keep_alive(chunked && request.keep_alive());
  if (chunked) header.chunked(true);
  http::response_serializer<http::empty_body> serializer(header);
  stream_.expires_after(shared_.limits.progress_timeout);
  const auto [error, size] = co_await http::async_write_header(stream_, serializer, kNoThrow);
  if (error) co_return false;

  ++shared_.log_readers;
  shared_.parts.metrics.AddLogReaders(1);
  const bool ended = co_await SendEvents(std::move(*opened), std::move(**first), chunked);
  --shared_.log_readers;
  shared_.parts.metrics.AddLogReaders(-1);
  co_return ended&& chunked&& request.keep_alive();
}

// True if the stream came to its end and the connection is whole.
asio::awaitable<bool> HttpSession::SendEvents(LogEvents events, LogEvents::Batch batch,
                                              bool chunked) {
  using SteadyClock = std::chrono::steady_clock;
  auto last_log = SteadyClock::now();
  auto last_write = last_log;
  std::string last_words;  // the end event, or an error
  while (last_words.empty()) {
    const auto now = SteadyClock::now();
    if (batch.text.empty() && now - last_write >= shared_.limits.log_keep_alive) {
      batch.text = ": keep-alive\n\n";
    } else if (!batch.text.empty()) {
      last_log = now;
    }
    if (!batch.text.empty()) {
      if (!co_await WriteEvents(batch.text, chunked)) co_return false;
      last_write = SteadyClock::now();
    }
    if (batch.complete) {
      last_words = EndEvent(batch.job_state);
      break;
    }
    if (!batch.more) {
      poll_timer_.expires_after(now - last_log > kQuietAfter ? shared_.limits.log_poll_idle
                                                             : shared_.limits.log_poll);
      if (!shared_.draining) co_await poll_timer_.async_wait(kNoThrow);
      if (PeerIsGone()) co_return false;
    }
    if (shared_.draining) co_return false;  // the client comes again, with its last id
    auto next = co_await RunOn(shared_.parts.log_workers, [&events] { return events.Next(); });
    if (!next) {
      batch = {};  // the disk readers are busy: later
    } else if (!*next) {
      last_words = ErrorEvent(next->error());
    } else {
      batch = std::move(**next);
    }
  }
  if (!co_await WriteEvents(last_words, chunked)) co_return false;
  co_return !chunked || co_await WriteEvents("", chunked);
}

// One chunk; an empty text is the last one.
asio::awaitable<bool> HttpSession::WriteEvents(std::string_view text, bool chunked) {
  const std::string before = chunked ? fmt::format("{:x}\r\n", text.size()) : "";
  const std::string_view after = chunked ? "\r\n" : "";
  const std::array<asio::const_buffer, 3> buffers = {asio::buffer(before), asio::buffer(text),
                                                     asio::buffer(after)};
  beast::buffers_suffix<std::array<asio::const_buffer, 3>> rest(buffers);
  while (beast::buffer_bytes(rest) > 0) {
    stream_.expires_after(shared_.limits.progress_timeout);
    const auto [error, size] = co_await stream_.async_write_some(rest, kNoThrow);
    if (error) co_return false;
    rest.consume(size);
  }
  stream_.expires_never();
  co_return true;
}

// Whether the reader has closed its side. A stream is only ever read to its end or left.
bool HttpSession::PeerIsGone() {
  char byte = 0;
  const ssize_t size = recv(stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace muster::server
