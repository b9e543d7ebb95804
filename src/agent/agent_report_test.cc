// Reports to musterd; Python packages.
#include <arpa/inet.h>
#include <sys/file.h>
#include <sys/socket.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <thread>

#include "agent/agent_test_util.h"
#include "base/check.h"
#include "base/fd.h"

namespace muster::agent {
namespace {

// Answers reports as musterd does, one at a time, and keeps them.
class FakeMusterd {
 public:
  explicit FakeMusterd(const fs::path& directory, std::string answer = "{}")
      : file_(directory / "musterd.json"), answer_(std::move(answer)) {
    listener_.Reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    MUSTER_CHECK(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    ::listen(listener_.get(), 8);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    MUSTER_CHECK(WriteFileAtomic(file_, fmt::format(R"({{"address":"127.0.0.1:{}","pid":1}})",
                                                    ntohs(address.sin_port)))
                     .has_value());
    int ends[2];
    MUSTER_CHECK(::pipe2(ends, O_CLOEXEC) == 0);
    quit_read_.Reset(ends[0]);
    quit_write_.Reset(ends[1]);
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeMusterd() { Join(); }

  std::string file() const { return file_.string(); }
  const std::vector<std::string>& Join() {
    quit_write_.Reset();
    if (thread_.joinable()) thread_.join();
    return bodies_;
  }

 private:
  bool WaitReadable(int fd) {
    pollfd fds[2] = {{fd, POLLIN, 0}, {quit_read_.get(), POLLIN, 0}};
    return ::poll(fds, 2, -1) > 0 && fds[0].revents != 0;
  }
  void Serve() {
    while (WaitReadable(listener_.get())) {
      const UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      std::string text;
      while (WaitReadable(connection.get())) {
        char buffer[4096];
        const ssize_t got = ::recv(connection.get(), buffer, sizeof buffer, 0);
        if (got <= 0) break;
        text.append(buffer, size_t(got));
        const size_t head = text.find("\r\n\r\n");
        if (head == std::string::npos) continue;
        const size_t length = std::stoul(text.substr(text.find("Content-Length: ") + 16));
        if (text.size() < head + 4 + length) continue;
        bodies_.push_back(text.substr(head + 4));
        text.clear();
        const std::string answer =
            fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", answer_.size(), answer_);
        (void)!::send(connection.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      }
    }
  }

  const fs::path file_;
  const std::string answer_;
  UniqueFd listener_, quit_read_, quit_write_;
  std::vector<std::string> bodies_;
  std::thread thread_;
};

TEST_F(AgentTest, ReportsStartAndEnd) {
  FakeMusterd musterd(root_);
  spec_.set_endpoint_file(musterd.file());
  spec_.set_token("secret");
  Shell("exit 3");
  StartAndFinish();
  const auto& bodies = musterd.Join();
  ASSERT_EQ(bodies.size(), 2u);
  EXPECT_THAT(bodies[0], HasSubstr("\"started\":{"));
  EXPECT_THAT(bodies[0], HasSubstr("\"processId\":"));
  EXPECT_THAT(bodies[1], HasSubstr("\"exited\":{\"cause\":\"EXITED\",\"status\":3"));
  for (const auto& body : bodies) EXPECT_THAT(body, HasSubstr("\"token\":\"secret\""));
}

TEST_F(AgentTest, StopsWhenMusterdSaysSo) {
  FakeMusterd musterd(root_, R"({"stop":true})");
  spec_.set_endpoint_file(musterd.file());
  Shell("exec sleep 1000");
  const Exited exited = StartAndFinish();
  EXPECT_EQ(exited.cause(), Exited::STOPPED);
  EXPECT_EQ(exited.status(), 143);
}

TEST_F(AgentTest, AMissingMusterdHoldsNothingUp) {
  spec_.set_endpoint_file(root_ / "musterd.json");
  ASSERT_TRUE(WriteFileAtomic(root_ / "musterd.json", R"({"address":"127.0.0.1:1","pid":1})"));
  Shell("exit 3");
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(StartAndFinish().status(), 3);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 4s) << "it reads report.json anyway";
}

// A wheel, made by hand: no build tool and no index is needed to install it.
constexpr const char* kMakeWheel = R"py(import sys, zipfile
files = {"trainer/__init__.py": "",
         "trainer/task.py": "import sys; print('trained', sys.prefix, sys.argv[1])",
         "trainer-0.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: trainer\nVersion: 0.1\n",
         "trainer-0.1.dist-info/WHEEL":
             "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
files["trainer-0.1.dist-info/RECORD"] = "".join(name + ",,\n" for name in files)
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    for name, text in files.items():
        wheel.writestr(name, text)
)py";

std::string MakePackage(const std::string& python, const fs::path& directory) {
  const std::string file = directory / "trainer-0.1-py3-none-any.whl";
  const fs::path script = directory / "make_wheel.py";
  std::ofstream(script) << kMakeWheel;
  const std::string command = fmt::format("'{}' '{}' '{}'", python, script.string(), file);
  EXPECT_EQ(::system(command.c_str()), 0);
  return file;
}

// The python3 on the PATH, if it has what installing needs.
std::optional<std::string> FindPython() {
  const char* command =
      "python3 -c 'import sys; from importlib.util import find_spec as f; "
      "f(\"pip\") and f(\"venv\") and print(sys.executable)' 2>/dev/null";
  FILE* const pipe = ::popen(command, "r");
  char line[4096] = "";
  const bool read = std::fgets(line, sizeof line, pipe) != nullptr;
  ::pclose(pipe);
  if (!read) return std::nullopt;
  std::string path = line;
  path.pop_back();
  return path;
}

class PackageTest : public AgentTest {
 protected:
  void SetUp() override {
    const auto python = FindPython();
    if (!python) GTEST_SKIP() << "no python3 with pip and venv on the PATH";
    SetVariable("PIP_NO_INDEX", "1");
    packages().set_interpreter(*python);
    packages().set_environment_directory(environment_);
    Run({"python3", "-m", "trainer.task", "7"});
  }
  muster::v1::PythonPackages& packages() { return *spec_.mutable_python_packages(); }
  const std::string environment_ = root_ / "job/python";
};

TEST_F(PackageTest, AreInstalledForTheJobAlone) {
  packages().add_files(MakePackage(packages().interpreter(), root_));
  const Exited first = StartAndFinish();
  EXPECT_EQ(first.status(), 0) << first.detail();
  EXPECT_THAT(Lines(), testing::Contains("trained " + environment_ + " 7"));

  // The next replica finds it ready.
  fs::remove_all(files_.directory());
  fs::create_directories(files_.directory());
  EXPECT_EQ(StartAndFinish().status(), 0);
  EXPECT_THAT(Lines(), testing::ElementsAre("trained " + environment_ + " 7"));
}

TEST_F(PackageTest, TheInterpretersOwnPackagesAreSeenToo) {
  // A mapped image is often a virtual environment.
  const std::string image = root_ / "image";
  const std::string command = fmt::format(
      "'{0}' -m venv --without-pip --system-site-packages '{1}' && echo own = 5 > "
      "$(echo '{1}'/lib/python*/site-packages)/imagemodule.py",
      packages().interpreter(), image);
  ASSERT_EQ(::system(command.c_str()), 0);
  packages().add_files(MakePackage(packages().interpreter(), root_));
  packages().set_interpreter(image + "/bin/python3");
  Run({image + "/bin/python3", "-c", "import imagemodule, trainer; print(imagemodule.own)"});
  const Exited exited = StartAndFinish();
  EXPECT_EQ(exited.status(), 0) << exited.detail();
  EXPECT_THAT(Lines(), testing::Contains("5"));
}

TEST_F(PackageTest, AFailureNamesThePackage) {
  const std::string missing = root_ / "missing-1.0.tar.gz";
  const std::string broken = root_ / "broken-1.0.tar.gz";
  ASSERT_TRUE(WriteFileAtomic(broken, "no archive"));
  for (const std::string& file : {missing, broken}) {
    fs::remove_all(files_.directory());
    fs::create_directories(files_.directory());
    packages().clear_files();
    packages().add_files(file);
    const Exited exited = StartAndFinish();
    EXPECT_EQ(exited.cause(), Exited::NEVER_STARTED);
    EXPECT_THAT(exited.detail(), HasSubstr(fs::path(file).filename().string()));
  }
}

TEST_F(PackageTest, AMissingInterpreterIsNamed) {
  packages().add_files(MakePackage(packages().interpreter(), root_));
  packages().set_interpreter("/no/python");
  const Exited exited = StartAndFinish();
  EXPECT_EQ(exited.cause(), Exited::NEVER_STARTED);
  EXPECT_THAT(exited.detail(), HasSubstr("/no/python"));
}

TEST_F(PackageTest, InstallingCanBeStopped) {
  packages().add_files(MakePackage(packages().interpreter(), root_));
  // Somebody else is at it, for ever.
  fs::create_directories(root_ / "job");
  const std::string lock = environment_ + ".lock";
  const UniqueFd held(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  Start();
  ASSERT_TRUE(Eventually([&] {
    for (const int pid : MarkedProcesses(uid_)) {
      if (ReadFile(fmt::format("/proc/{}/wchan", pid)).value_or("").find("lock") !=
          std::string::npos) {
        return true;
      }
    }
    return false;
  })) << "the installer waits for its turn";
  ::kill(agent_, SIGTERM);
  EXPECT_EQ(Finish().cause(), Exited::STOPPED);
}

}  // namespace
}  // namespace muster::agent
