#include "server/http_door.h"

#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <unordered_set>

#include "base/log.h"
#include "server/http_session.h"

namespace muster::server {

namespace asio = boost::asio;

struct HttpDoor::Impl {
  explicit Impl(asio::io_context& loop_in, const Parts& parts, const HttpLimits& limits,
                std::vector<std::string> own_names)
      : loop(loop_in), shared{parts, limits, std::move(own_names)} {}

  asio::awaitable<void> Serve(std::shared_ptr<HttpSession> session) {
    co_await session->Run();
    sessions.erase(session);
  }

  asio::io_context& loop;
  HttpShared shared;
  std::unordered_set<std::shared_ptr<HttpSession>> sessions;
};

HttpDoor::HttpDoor(asio::io_context& loop, Parts parts, HttpLimits limits,
                   std::vector<std::string> own_names)
    : impl_(std::make_unique<Impl>(loop, parts, limits, std::move(own_names))) {}

HttpDoor::~HttpDoor() = default;

void HttpDoor::Take(UniqueFd connection) {
  if (impl_->shared.draining) return;
  if (impl_->sessions.size() >= impl_->shared.limits.connections_max) {
    impl_->shared.parts.metrics.CountRefused("crowded");
    return;
  }
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(connection.get(), reinterpret_cast<sockaddr*>(&address), &size);
  const auto protocol = address.ss_family == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4();
  boost::system::error_code error;
  asio::ip::tcp::socket socket(impl_->loop);
  socket.assign(protocol, connection.get(), error);
  if (error) return;
  connection.Release();
  impl_->shared.parts.metrics.CountConnection(Metrics::Door::kRest);
  auto session = std::make_shared<HttpSession>(std::move(socket), impl_->shared);
  impl_->sessions.insert(session);
  asio::co_spawn(impl_->loop, impl_->Serve(session), asio::detached);
}

void HttpDoor::Drain() {
  impl_->shared.draining = true;
  for (const auto& session : impl_->sessions) session->Drain();
}

void HttpDoor::CloseAll() {
  for (const auto& session : impl_->sessions) session->Close();
}

size_t HttpDoor::connections() const { return impl_->sessions.size(); }

}  // namespace muster::server
