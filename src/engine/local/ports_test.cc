#include "engine/local/ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rapidcheck/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <set>

namespace muster::engine {
namespace {

// Ranges of their own, so that tests can run beside others; above the ephemeral ports.
constexpr PortRange kRange{61500, 61999};

TEST(PortRange, StaysOutsideTheEphemeralPorts) {
  EXPECT_EQ(AdaptPortRange({20000, 29999}, "32768\t60999\n"), (PortRange{20000, 29999}));
  EXPECT_EQ(AdaptPortRange({20000, 29999}, "25000 60999"), (PortRange{20000, 24999}));
  EXPECT_EQ(AdaptPortRange({20000, 29999}, "10000 29000"), (PortRange{29001, 29999}));
  EXPECT_EQ(AdaptPortRange({20000, 29999}, "15000 65535"), (PortRange{1025, 14999}));
  EXPECT_EQ(AdaptPortRange({20000, 29999}, "1024 40000"), (PortRange{40001, 65535}));
  EXPECT_EQ(AdaptPortRange({20000, 20004}, "32768 60999"), (PortRange{20000, 20004}));
  EXPECT_EQ(AdaptPortRange({20000, 29999}, "1024 65535"), (PortRange{20000, 29999}));
}

RC_GTEST_PROP(PortRangeProperty, NeverOverlapsUnlessNothingIsLeft, ()) {
  const int first = *rc::gen::inRange(1025, 65000);
  const int last = *rc::gen::inRange(first, 65536);
  const int low = *rc::gen::inRange(1024, 65000);
  const int high = *rc::gen::inRange(low, 65536);
  const PortRange range =
      AdaptPortRange({first, last}, std::to_string(low) + "\t" + std::to_string(high));
  RC_ASSERT(range.first <= range.last);
  if (low - 1025 < 100 && 65535 - high < 100) RC_DISCARD("nothing is left");
  RC_ASSERT(range.last < low || range.first > high);
}

TEST(PortPool, LeasesAreUniqueAmongPools) {
  PortPool one(kRange);
  PortPool other(kRange);  // another musterd on this machine
  std::set<int> ports;
  std::vector<PortLease> held;
  for (int i = 0; i < 20; ++i) {
    for (PortPool* pool : {&one, &other}) {
      auto leases = pool->Lease(5);
      ASSERT_TRUE(leases);
      for (PortLease& lease : *leases) {
        EXPECT_TRUE(ports.insert(lease.port).second) << lease.port;
        held.push_back(std::move(lease));
      }
    }
  }
}

TEST(PortPool, ALeaseEndsWithItsLastDescriptor) {
  PortPool pool({61400, 61400});
  auto lease = pool.Lease(1);
  ASSERT_TRUE(lease);
  const UniqueFd agents(::dup((*lease)[0].fd.get()));
  lease->clear();
  const auto none = pool.Lease(1);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kResourceExhausted);
  EXPECT_EQ(none.error().message, "needs 1 free ports, and 61400–61400 has 0");
}

TEST(PortPool, SkipsPortsThatSomebodyUses) {
  for (const int family : {AF_INET, AF_INET6}) {
    const UniqueFd listener(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(61401);
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(61401);
    v6.sin6_addr = in6addr_loopback;
    const int bound = family == AF_INET
                          ? ::bind(listener.get(), reinterpret_cast<sockaddr*>(&v4), sizeof v4)
                          : ::bind(listener.get(), reinterpret_cast<sockaddr*>(&v6), sizeof v6);
    if (family == AF_INET6 && bound != 0) continue;  // no IPv6 here
    ASSERT_EQ(bound, 0);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    PortPool pool({61401, 61402});
    const auto lease = pool.Lease(1);
    ASSERT_TRUE(lease);
    EXPECT_EQ((*lease)[0].port, 61402);
  }
}

TEST(PortPool, TakesOverWhatAnotherProcessHolds) {
  PortPool pool({61403, 61404});
  auto lease = pool.Lease(1);
  ASSERT_TRUE(lease);
  const int port = (*lease)[0].port;
  EXPECT_FALSE(PortPool::Take(port).fd);
  const UniqueFd self(int(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  const PortLease copy = PortPool::TakeFrom(port, self.get(), (*lease)[0].fd.get());
  EXPECT_TRUE(copy.fd);
  const PortLease wrong = PortPool::TakeFrom(port, self.get(), 1);  // not a lease of this port
  EXPECT_FALSE(wrong.fd);
  lease->clear();
  EXPECT_FALSE(PortPool::Take(port).fd);  // the copy holds it
}

}  // namespace
}  // namespace muster::engine
