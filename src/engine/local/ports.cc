#include "engine/local/ports.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <sstream>

namespace muster::engine {

namespace {
constexpr int kEnoughPorts = 100;

struct Address {
  sockaddr_un name{};
  socklen_t size = 0;
};

Address LeaseAddress(int port) {
  Address address;
  address.name.sun_family = AF_UNIX;
  const std::string text = fmt::format("muster-port-{}", port);
  std::memcpy(address.name.sun_path + 1, text.data(), text.size());
  address.size = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return address;
}

UniqueFd BindLease(int port) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Address address = LeaseAddress(port);
  if (!fd ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.name), address.size) != 0) {
    return UniqueFd();
  }
  return fd;
}

// Without SO_REUSEADDR, so that connections that linger count as well.
template <typename SocketAddress>
bool CanBind(int family, const SocketAddress& address) {
  const UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno == EAFNOSUPPORT;
  const int on = 1;
  if (family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return true;
  return errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT;  // a machine without IPv6
}

bool IsFree(int port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(uint16_t(port));
  v4.sin_addr.s_addr = htonl(INADDR_ANY);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(uint16_t(port));
  v6.sin6_addr = in6addr_any;
  return CanBind(AF_INET, v4) && CanBind(AF_INET6, v6);
}

bool IsLeaseOf(int fd, int port) {
  Address got;
  got.size = sizeof got.name;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&got.name), &got.size) != 0) return false;
  const Address wanted = LeaseAddress(port);
  return got.size == wanted.size && std::memcmp(&got.name, &wanted.name, wanted.size) == 0;
}
}  // namespace

PortRange AdaptPortRange(PortRange wanted, std::string_view ephemeral_range) {
  int low = 32768;
  int high = 60999;
  std::istringstream(std::string(ephemeral_range)) >> low >> high;
  const PortRange below{std::max(wanted.first, 1024), std::min(wanted.last, low - 1)};
  const PortRange above{std::max(wanted.first, high + 1), std::min(wanted.last, 65535)};
  const auto size = [](PortRange range) { return range.last - range.first + 1; };
  const PortRange cut = size(below) >= size(above) ? below : above;
  if (size(cut) >= std::min(kEnoughPorts, size(wanted))) return cut;
  const PortRange all_below{1025, low - 1};
  const PortRange all_above{high + 1, 65535};
  const PortRange widest = size(all_below) >= size(all_above) ? all_below : all_above;
  if (size(widest) < kEnoughPorts) return wanted;
  return widest;
}

Result<std::vector<PortLease>> PortPool::Lease(size_t count) {
  std::vector<PortLease> leases;
  const int size = range_.last - range_.first + 1;
  for (int tried = 0; tried < size && leases.size() < count; ++tried) {
    const int port = next_;
    next_ = next_ == range_.last ? range_.first : next_ + 1;
    UniqueFd fd = BindLease(port);
    if (fd && IsFree(port)) leases.push_back({port, std::move(fd)});
  }
  if (leases.size() < count) {
    return Fail(Code::kResourceExhausted, "needs {} free ports, and {}–{} has {}", count,
                range_.first, range_.last, leases.size());
  }
  return leases;
}

PortLease PortPool::Take(int port) { return {port, BindLease(port)}; }

PortLease PortPool::TakeFrom(int port, int pidfd, int fd) {
  // May be forbidden (kernel.yama.ptrace_scope): then the agent's own descriptor is the lease.
  UniqueFd copy(int(::syscall(SYS_pidfd_getfd, pidfd, fd, 0)));
  if (copy && IsLeaseOf(copy.get(), port)) return {port, std::move(copy)};
  return Take(port);
}

}  // namespace muster::engine
