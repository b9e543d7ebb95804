// Cgroups, mounts, namespaces, a full disk.
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#include <cstring>

#include "agent/agent_test_util.h"
#include "base/check.h"
#include "base/fd.h"

namespace muster::agent {
namespace {

TEST_F(AgentTest, DaemonsEndWhenStoppedToo) {
  if (!AddCgroups(/*kill=*/true, 0)) GTEST_SKIP() << "no cgroup v2 to write to";
  spec_.mutable_grace_period()->set_seconds(0);
  Shell(
      "(setsid sh -c 'trap \"\" TERM; echo daemon; while :; do sleep 1000; done' &); "
      "trap '' TERM; while :; do sleep 1000; done");
  Start();
  ASSERT_TRUE(WaitForLine("daemon"));
  ::kill(agent_, SIGTERM);
  EXPECT_EQ(Finish().cause(), Exited::STOPPED);
  EXPECT_THAT(MarkedProcesses(uid_), testing::IsEmpty());
}

TEST_F(AgentTest, OutOfMemoryIsTold) {
  if (!AddCgroups(/*kill=*/false, 32 << 20)) GTEST_SKIP() << "no memory cgroup to write to";
  Shell("x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo $?");
  const Exited exited = StartAndFinish();
  EXPECT_EQ(exited.cause(), Exited::OUT_OF_MEMORY);
  EXPECT_EQ(exited.status(), 137);
  EXPECT_THAT(exited.detail(), HasSubstr("gives it 32 MiB"));
}

bool CanMakeNamespaces() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(::unshare(CLONE_NEWNS | CLONE_NEWNET) == 0 ? 0 : 1);
  int status = 1;
  ::waitpid(pid, &status, 0);
  return status == 0;
}

TEST_F(AgentTest, MountsAreSeenInsideOnly) {
  if (!CanMakeNamespaces()) GTEST_SKIP() << "no namespaces here";
  const auto mount = [&](const std::string& source, const std::string& target) {
    auto& added = *spec_.mutable_isolation()->add_mounts();
    added.set_source(source);
    added.set_target(target);
  };
  const std::string top = "/" + uid_, deep = root_.string() + "/deep/a/b c",
                    nested = "/var/" + uid_;
  mount(root_ / "buckets", top);
  mount(files_.log_storage(), nested + "/log-storage");
  mount(root_ / "buckets", deep);
  mount(root_ / "buckets", "/usr/share");  // one that exists already
  fs::create_directory(root_ / "buckets");
  fs::create_directory(root_ / "deep");
  ASSERT_TRUE(WriteFileAtomic(root_ / "buckets/in", "hello\n"));
  Shell("cat " + top + "/in; echo new > " + top + "/out; cat '" + deep +
        "/out' /usr/share/in; ls -d /etc /tmp /proc/self; "
        "echo collected > " +
        nested + "/log-storage/output.log; readlink /bin; touch /tmp/" + uid_ + "/host");
  const Exited exited = StartAndFinish();
  EXPECT_EQ(exited.status(), 0) << exited.detail();
  std::vector<std::string> expected = {"hello",      "new",  "hello",    "/etc",
                                       "/proc/self", "/tmp", "collected"};
  std::error_code error;
  if (fs::is_symlink("/bin")) expected.push_back(fs::read_symlink("/bin", error));
  EXPECT_THAT(Lines(), testing::UnorderedElementsAreArray(expected));
  EXPECT_EQ(*ReadFile(root_ / "buckets/out"), "new\n");
  EXPECT_TRUE(fs::exists(root_ / "host")) << "other directories are the host's";
  for (const std::string& target : {top, nested, root_.string() + "/deep/a"}) {
    EXPECT_FALSE(fs::exists(target)) << target;
  }
  EXPECT_FALSE(fs::exists("/usr/share/in"));
}

TEST_F(AgentTest, AMountThatCannotBeIsNamed) {
  if (!CanMakeNamespaces()) GTEST_SKIP() << "no namespaces here";
  auto& mount = *spec_.mutable_isolation()->add_mounts();
  mount.set_source(root_ / "buckets");
  mount.set_target("/etc/passwd");
  Shell("true");
  const Exited exited = StartAndFinish();
  EXPECT_EQ(exited.cause(), Exited::NEVER_STARTED);
  EXPECT_THAT(exited.detail(), HasSubstr("/etc/passwd is no directory"));
}

// A namespace of its own, as the engine makes one, opened at `fd`.
void OpenNewNetwork(int fd) {
  const UniqueFd before(::open("/proc/self/ns/net", O_RDONLY));
  MUSTER_CHECK(::unshare(CLONE_NEWNET) == 0);
  const UniqueFd made(::open("/proc/self/ns/net", O_RDONLY));
  ::dup2(made.get(), fd);
  MUSTER_CHECK(::setns(before.get(), CLONE_NEWNET) == 0);
}

TEST_F(AgentTest, TheProgramRunsInTheJobsNetwork) {
  if (!CanMakeNamespaces()) GTEST_SKIP() << "no namespaces here";
  spec_.mutable_isolation()->set_network_namespace_fd(200);
  Shell("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '");
  Start([] { OpenNewNetwork(200); });
  Finish();
  EXPECT_THAT(Lines(), testing::ElementsAre("lo"));
}

TEST_F(AgentTest, OrdinaryUsersGetTheirViewFromAUserNamespace) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  constexpr uid_t kSomebody = 65534;
  for (const auto& path : {root_, files_.directory()}) {
    ASSERT_EQ(::chown(path.c_str(), kSomebody, kSomebody), 0);
  }
  spec_.mutable_isolation()->set_user_namespace_fd(201);
  spec_.mutable_isolation()->set_network_namespace_fd(200);
  auto& mount = *spec_.mutable_isolation()->add_mounts();
  mount.set_source(root_ / "buckets");
  mount.set_target("/" + uid_);
  Shell("id -u; echo x > /" + uid_ +
        "/file; ls -d /etc; tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '");
  ASSERT_TRUE(files_.WriteLaunch(spec_));
  ASSERT_EQ(::chown(files_.launch().c_str(), kSomebody, kSomebody), 0);
  bool is_possible = true;
  int result[2];
  ASSERT_EQ(::pipe(result), 0);
  agent_ = SpawnAgent([&] {
    ::setgid(kSomebody);
    ::setuid(kSomebody);
    ::prctl(PR_SET_DUMPABLE, 1);  // else its files in /proc stay root's
    // The namespaces' own process, whose descriptors stay.
    const auto write = [](const char* path, const char* text) {
      const UniqueFd file(::open(path, O_WRONLY));
      return ::write(file.get(), text, strlen(text)) > 0;
    };
    int gate[2];
    (void)!::pipe(gate);
    const pid_t holder = ::fork();
    if (holder == 0) {
      const bool made = ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 &&
                        write("/proc/self/setgroups", "deny") &&
                        write("/proc/self/uid_map", "65534 65534 1") &&
                        write("/proc/self/gid_map", "65534 65534 1");
      (void)!::write(gate[1], made ? "y" : "n", 1);
      ::pause();
    }
    char made = 'n';
    (void)!::read(gate[0], &made, 1);
    const auto open_at = [&](const char* name, int fd) {
      const UniqueFd file(::open(fmt::format("/proc/{}/ns/{}", holder, name).c_str(), O_RDONLY));
      ::dup2(file.get(), fd);
    };
    open_at("net", 200);
    open_at("user", 201);
    ::kill(holder, SIGKILL);
    ::waitpid(holder, nullptr, 0);
    (void)!::write(result[1], &made, 1);
    if (made != 'y') ::_exit(125);
  });
  char made = 'n';
  (void)!::read(result[0], &made, 1);
  is_possible = made == 'y';
  ::close(result[0]);
  ::close(result[1]);
  if (!is_possible) {
    WaitFor(std::exchange(agent_, 0));
    GTEST_SKIP() << "no user namespaces for ordinary users here";
  }
  const Exited exited = Finish();
  EXPECT_EQ(exited.cause(), Exited::EXITED) << exited.detail();
  EXPECT_THAT(Lines(), testing::ElementsAre("65534", "/etc", "lo"));
  EXPECT_TRUE(fs::exists(root_ / "buckets/file"));
  EXPECT_FALSE(fs::exists("/" + uid_));
}

TEST_F(AgentTest, AFullDiskLosesOutputButNotTheEnd) {
  if (!CanMakeNamespaces()) GTEST_SKIP() << "no namespaces here, so no small file system";
  const std::string disk = root_ / "disk";
  fs::create_directory(disk);
  // The attempt lies on a file system of 1 MB, in a mount namespace that ends with the agent; what
  // is left there is copied out by the program that stands around the agent.
  Shell("head -c 3000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo end >&2; exit 9");
  spec_.set_attempt_directory(disk + "/attempt");
  ASSERT_TRUE(files_.WriteLaunch(spec_));
  const std::string launch = files_.launch();
  agent_ = ::fork();
  if (agent_ == 0) {
    if (::unshare(CLONE_NEWNS) != 0) ::_exit(1);
    ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (::mount("none", disk.c_str(), "tmpfs", 0, "size=1m") != 0) ::_exit(1);
    const std::string script = "mkdir " + disk + "/attempt && cp " + launch + " " + disk +
                               "/attempt/ && " MUSTER_AGENT " " + disk + "/attempt; code=$?; cp " +
                               disk + "/attempt/* " + files_.directory().string() +
                               "/ 2>/dev/null; exit $code";
    ::execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
    ::_exit(126);
  }
  const Exited exited = Finish();
  EXPECT_EQ(exited.cause(), Exited::EXITED);
  EXPECT_EQ(exited.status(), 9);
  EXPECT_EQ(exited.detail(), "end");
  EXPECT_GT(exited.log_dropped_bytes(), 2'000'000);
  EXPECT_LT(exited.log_dropped_bytes(), 3'000'100);
  EXPECT_EQ(Lines().front(), std::string(99, 'x'));
}

}  // namespace
}  // namespace muster::agent
