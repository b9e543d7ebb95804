#include "server/front_door.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <list>

#include "base/log.h"

namespace muster::server {
namespace {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
constexpr std::string_view kHttp2Preface = "PRI * HTTP/2";
constexpr char kTlsHandshake = 0x16;
constexpr auto kOutOfDescriptorsPause = std::chrono::milliseconds(100);
constexpr auto kSlowBytesPause = std::chrono::milliseconds(20);

struct ListenAddress {
  std::string host;
  std::string port;
};

// "127.0.0.1:8080", "localhost:0", "[::1]:8080"
Result<ListenAddress> ParseListen(const std::string& text) {
  const size_t colon = text.rfind(':');
  ListenAddress address;
  if (colon != std::string::npos) {
    address = {text.substr(0, colon), text.substr(colon + 1)};
    if (address.host.starts_with('[') && address.host.ends_with(']')) {
      address.host = address.host.substr(1, address.host.size() - 2);
    } else if (address.host.find(':') != std::string::npos) {
      address.host.clear();
    }
  }
  const bool number = !address.port.empty() && address.port.size() <= 5 &&
                      address.port.find_first_not_of("0123456789") == std::string::npos;
  if (address.host.empty() || !number || std::stoi(address.port) > 65535) {
    return Fail(Code::kInvalidArgument,
                "'{}' is no address to listen on: give HOST:PORT, such as 127.0.0.1:8080, "
                "[::1]:8080, or 127.0.0.1:0 for any free port",
                text);
  }
  return address;
}

std::string BoundAddress(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  if (getsockname(fd, address, &size) != 0 ||
      getnameinfo(address, size, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "";
  }
  return storage.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, port)
                                       : fmt::format("{}:{}", host, port);
}

Result<UniqueFd> Listen(const std::string& listen_on) {
  MUSTER_ASSIGN(const ListenAddress address, ParseListen(listen_on));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int lookup = getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
  if (lookup != 0) {
    return Fail(Code::kInvalidArgument, "cannot listen on {}: {}", listen_on, gai_strerror(lookup));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  UniqueFd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (!fd || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 || listen(fd.get(), 4096) != 0) {
    return FailErrno(errno, fmt::format("cannot listen on {}", listen_on));
  }
  return fd;
}

bool PeerHasClosed(int fd) {
  pollfd poll_fd{fd, POLLRDHUP, 0};
  return poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace

Protocol ProtocolOf(std::string_view first_bytes) {
  if (first_bytes.empty()) return Protocol::kUndecided;
  if (first_bytes.front() == kTlsHandshake) return Protocol::kTls;
  if (first_bytes.starts_with(kHttp2Preface)) return Protocol::kGrpc;
  return kHttp2Preface.starts_with(first_bytes) ? Protocol::kUndecided : Protocol::kHttp;
}

// Invariant: `undecided` holds exactly the connections whose Decide runs, oldest first.
struct FrontDoor::Impl {
  Impl(asio::io_context& loop_in, Options options_in, UniqueFd listener_fd)
      : loop(loop_in),
        options(std::move(options_in)),
        address(BoundAddress(listener_fd.get())),
        listener(loop_in, listener_fd.Release()),
        pause(loop_in) {}

  struct Connection {
    explicit Connection(asio::io_context& loop, UniqueFd fd)
        : socket(loop, fd.Release()), deadline(loop), pause(loop) {}
    Descriptor socket;
    asio::steady_timer deadline;
    asio::steady_timer pause;
    std::string_view refused;  // why it was closed
  };
  using ConnectionList = std::list<std::shared_ptr<Connection>>;

  asio::awaitable<void> AcceptAll();
  asio::awaitable<void> Decide(std::shared_ptr<Connection> connection);
  asio::awaitable<Protocol> AwaitProtocol(Connection& connection);
  bool AcceptWaiting();
  void Refuse(Connection& connection, std::string_view why);
  void HandOn(Protocol protocol, UniqueFd fd);

  asio::io_context& loop;
  const Options options;
  const std::string address;
  Descriptor listener;
  asio::steady_timer pause;
  ConnectionList undecided;
  bool told_of_descriptors = false;
};

asio::awaitable<void> FrontDoor::Impl::AcceptAll() {
  while (listener.is_open()) {
    const auto [error] = co_await listener.async_wait(Descriptor::wait_read, kNoThrow);
    if (error) co_return;
    if (AcceptWaiting()) continue;
    // The waiting connection stays in the kernel's queue, and would wake us at once.
    pause.expires_after(kOutOfDescriptorsPause);
    co_await pause.async_wait(kNoThrow);
  }
}

// False if the process or the system has run out of descriptors.
bool FrontDoor::Impl::AcceptWaiting() {
  constexpr int kAtOnce = 64;  // so that other work on the loop has its turn
  for (int i = 0; i < kAtOnce; ++i) {
    UniqueFd fd(accept4(listener.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        if (!told_of_descriptors) LogError("cannot accept connections: out of file descriptors");
        told_of_descriptors = true;
        return false;
      }
      return true;  // none waiting, or one that was given up meanwhile
    }
    told_of_descriptors = false;
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    while (undecided.size() >= options.undecided_max) Refuse(*undecided.front(), "crowded");
    auto connection = std::make_shared<Connection>(loop, std::move(fd));
    undecided.push_back(connection);
    asio::co_spawn(loop, Decide(connection), asio::detached);
  }
  return true;
}

void FrontDoor::Impl::Refuse(Connection& connection, std::string_view why) {
  connection.refused = why;
  connection.socket.close();
  connection.pause.cancel();
  const auto at = std::ranges::find_if(undecided, [&](auto& c) { return c.get() == &connection; });
  if (at != undecided.end()) undecided.erase(at);
}

asio::awaitable<void> FrontDoor::Impl::Decide(std::shared_ptr<Connection> connection) {
  connection->deadline.expires_after(options.decide_timeout);
  connection->deadline.async_wait([this, weak = std::weak_ptr(connection)](auto error) {
    const auto alive = weak.lock();
    if (!error && alive && alive->socket.is_open()) Refuse(*alive, "silent");
  });
  const Protocol protocol = co_await AwaitProtocol(*connection);
  connection->deadline.cancel();
  if (!connection->refused.empty()) {
    if (options.refused) options.refused(connection->refused);
    co_return;
  }
  UniqueFd fd(connection->socket.release());
  std::erase(undecided, connection);
  if (protocol != Protocol::kUndecided) HandOn(protocol, std::move(fd));
}

// kUndecided if the peer went away, or the connection was refused meanwhile.
asio::awaitable<Protocol> FrontDoor::Impl::AwaitProtocol(Connection& connection) {
  size_t had = 0;
  while (true) {
    const auto [error] = co_await connection.socket.async_wait(Descriptor::wait_read, kNoThrow);
    if (error || !connection.socket.is_open()) co_return Protocol::kUndecided;
    const int fd = connection.socket.native_handle();
    std::array<char, kHttp2Preface.size()> first;
    const ssize_t size = recv(fd, first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (size <= 0) co_return Protocol::kUndecided;
    const Protocol protocol = ProtocolOf({first.data(), static_cast<size_t>(size)});
    int low_water_bytes = 1;
    if (protocol != Protocol::kUndecided) {
      setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low_water_bytes, sizeof low_water_bytes);
      co_return protocol;
    }
    // Bytes that were only peeked at keep the socket readable: wake for more than these.
    low_water_bytes = static_cast<int>(size) + 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low_water_bytes, sizeof low_water_bytes);
    if (static_cast<size_t>(size) == had) {
      if (PeerHasClosed(fd)) co_return Protocol::kUndecided;
      connection.pause.expires_after(kSlowBytesPause);
      co_await connection.pause.async_wait(kNoThrow);
      if (!connection.socket.is_open()) co_return Protocol::kUndecided;
    }
    had = static_cast<size_t>(size);
  }
}

void FrontDoor::Impl::HandOn(Protocol protocol, UniqueFd fd) {
  if (protocol == Protocol::kGrpc) {
    options.take_grpc(std::move(fd));
  } else if (protocol == Protocol::kHttp) {
    options.take_http(std::move(fd));
  } else if (options.take_tls) {
    options.take_tls(std::move(fd));
  } else {
    LogLine(LogLevel::kDebug, "closed a TLS connection: no certificate is configured");
    if (options.refused) options.refused("tls");
  }
}

FrontDoor::FrontDoor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FrontDoor::~FrontDoor() = default;

Result<std::unique_ptr<FrontDoor>> FrontDoor::Open(asio::io_context& loop, Options options) {
  MUSTER_ASSIGN(UniqueFd listener, Listen(options.listen));
  auto impl = std::make_unique<Impl>(loop, std::move(options), std::move(listener));
  asio::co_spawn(loop, impl->AcceptAll(), asio::detached);
  return std::unique_ptr<FrontDoor>(new FrontDoor(std::move(impl)));
}

const std::string& FrontDoor::address() const { return impl_->address; }

void FrontDoor::Close() {
  impl_->listener.close();
  impl_->pause.cancel();
  while (!impl_->undecided.empty()) impl_->Refuse(*impl_->undecided.front(), "closing");
}

}  // namespace muster::server
