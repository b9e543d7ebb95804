#include "engine/local/namespaces.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <set>
#include <string>

namespace muster::engine {
namespace {

// "lo up" and so on: the interfaces of the network that this process is in.
std::set<std::string> Interfaces() {
  std::set<std::string> found;
  ifaddrs* list = nullptr;
  ::getifaddrs(&list);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    found.insert(std::string(entry->ifa_name) +
                 ((entry->ifa_flags & IFF_UP) != 0 ? " up" : " down"));
  }
  ::freeifaddrs(list);
  return found;
}

// A connection over loopback, both ends here.
bool LoopbackWorks() {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM, 0));
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(2222);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  return ::bind(listener.get(), raw, sizeof address) == 0 && ::listen(listener.get(), 1) == 0 &&
         ::connect(client.get(), raw, sizeof address) == 0;
}

// Runs `body` in a child of its own, since entering namespaces is for good; its result there.
template <typename Body>
bool InChild(const Body& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body() ? 0 : 1);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool IsPrivate(const Namespaces& namespaces) {
  return InChild([&] {
    if (namespaces.user && ::setns(namespaces.user.get(), CLONE_NEWUSER) != 0) return false;
    if (::setns(namespaces.network.get(), CLONE_NEWNET) != 0) return false;
    return Interfaces() == std::set<std::string>{"lo up"} && LoopbackWorks();
  });
}

TEST(Namespaces, APrivateNetworkHasOnlyAWorkingLoopback) {
  const NamespaceAbilities abilities = FindNamespaceAbilities();
  if (!abilities.network) GTEST_SKIP() << "not permitted: " << abilities.why_no_network;
  auto namespaces = MakeNamespaces({true, abilities.needs_user});
  ASSERT_TRUE(namespaces) << namespaces.error().message;
  EXPECT_TRUE(IsPrivate(*namespaces));
  EXPECT_EQ(bool(namespaces->user), abilities.needs_user);
  // This process itself has stayed where it was.
  struct stat mine{};
  struct stat made{};
  ASSERT_EQ(::stat("/proc/self/ns/net", &mine), 0);
  ASSERT_EQ(::fstat(namespaces->network.get(), &made), 0);
  EXPECT_NE(mine.st_ino, made.st_ino);
}

TEST(Namespaces, AnOrdinaryUserGetsOneToo) {
  if (::getuid() != 0) GTEST_SKIP() << "the test above was an ordinary user's";
  EXPECT_TRUE(InChild([] {
    constexpr int kNobody = 65534;
    if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) return false;
    ::prctl(PR_SET_DUMPABLE, 1);  // as it is for a process that was started by that user
    const NamespaceAbilities abilities = FindNamespaceAbilities();
    if (!abilities.network) {
      std::printf("not permitted to ordinary users: %s\n", abilities.why_no_network.c_str());
      return true;
    }
    const auto namespaces = MakeNamespaces({true, true});
    return abilities.needs_user && namespaces && IsPrivate(*namespaces) &&
           InChild([&] {  // who keeps their own id inside
             return ::setns(namespaces->user.get(), CLONE_NEWUSER) == 0 && ::getuid() == kNobody;
           });
  }));
}

TEST(Namespaces, AreReopenedFromWhoHoldsThem) {
  const NamespaceAbilities abilities = FindNamespaceAbilities();
  if (!abilities.network) GTEST_SKIP() << "not permitted: " << abilities.why_no_network;
  auto namespaces = MakeNamespaces({true, abilities.needs_user});
  ASSERT_TRUE(namespaces);
  const auto again = ReopenNamespaces(::getpid(), namespaces->network.get(), 0);
  ASSERT_TRUE(again) << again.error().message;
  struct stat one{};
  struct stat other{};
  ::fstat(namespaces->network.get(), &one);
  ::fstat(again->network.get(), &other);
  EXPECT_EQ(one.st_ino, other.st_ino);
  const UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(ReopenNamespaces(::getpid(), file.get(), 0));
  EXPECT_FALSE(ReopenNamespaces(::getpid(), 999, 0));
}

}  // namespace
}  // namespace muster::engine
