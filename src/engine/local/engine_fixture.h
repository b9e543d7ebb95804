// A musterd's loop and engine for tests, which can be dropped and made anew as after kill -9.
#pragma once

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/v1/agent.pb.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "attempt/files.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/local/leak_check.h"
#include "engine/local/local_engine.h"
#include "engine/local/process_tree.h"

namespace muster::engine {

namespace fs = std::filesystem;
using muster::v1::LaunchSpec;

class Recorder final : public Listener {
 public:
  void OnAdmitted(const std::string& job_uid, const Grant& grant) override {
    EXPECT_FALSE(grants.contains(job_uid));
    grants[job_uid] = grant;
  }
  void OnAgentEnded(const AttemptKey& attempt) override { ended.push_back(attempt); }

  std::map<std::string, Grant> grants;
  std::vector<AttemptKey> ended;
};

inline size_t OpenDescriptors() {
  size_t count = 0;
  DIR* directory = ::opendir("/proc/self/fd");
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

class LocalEngineTest : public ::testing::Test {
 protected:
  LocalEngineTest() {
    SetLogLevel(LogLevel::kWarning);
    options_.data_directory = directory_;
    options_.agent_binary = MUSTER_FAKE_AGENT;
    options_.cpus = 4;
    options_.memory_mb = 4096;
    options_.oversubscribe = 1000;
    options_.gpus = 0;
    options_.ports = {61000, 61399};
    options_.kill_margin = std::chrono::milliseconds(100);
    fs::create_directories(directory_);
  }
  ~LocalEngineTest() override {
    engine_.reset();
    fs::remove_all(directory_);
  }

  void Open() {
    listener_ = Recorder();
    engine_ = std::make_unique<LocalEngine>(io_, listener_, options_, clock_);
    cgroup_bases_ = {engine_->cgroups().kill_base(), engine_->cgroups().memory_base()};
    std::erase(cgroup_bases_, "");
  }
  // As kill -9 of musterd: agents stay. (Here they also stay this process's children.)
  void Crash() {
    engine_.reset();
    io_.restart();
    io_.poll();
  }

  template <typename Condition>
  bool Await(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      io_.restart();
      if (io_.run_one_for(std::chrono::milliseconds(5)) == 0) ::usleep(1000);
    }
    return true;
  }

  static Gang GangOf(const std::string& uid, int replicas, int gpus = 0) {
    Gang gang{uid, {}, ""};
    for (int i = 0; i < replicas; ++i) {
      gang.members.push_back({{i == 0 ? 0 : 1, i == 0 ? 0 : i - 1}, 1, 512, gpus, "NVIDIA_L4"});
    }
    return gang;
  }

  Grant Admit(const Gang& gang) {
    EXPECT_TRUE(engine_->Request(gang));
    EXPECT_TRUE(Await([&] { return listener_.grants.contains(gang.job_uid); }));
    return listener_.grants[gang.job_uid];
  }

  LaunchSpec SpecOf(const std::string& uid, int replica, std::vector<std::string> argv,
                    int attempt = 0) const {
    LaunchSpec spec;
    spec.mutable_id()->set_job_uid(uid);
    spec.mutable_id()->set_pool(replica == 0 ? 0 : 1);
    spec.mutable_id()->set_index(replica == 0 ? 0 : replica - 1);
    spec.mutable_id()->set_attempt(attempt);
    const std::string name =
        "workerpool" + std::to_string(spec.id().pool()) + "-" + std::to_string(spec.id().index());
    spec.set_replica_name(name);
    spec.set_attempt_directory(
        (directory_ / "jobs" / uid / name / ("attempt-" + std::to_string(attempt))).string());
    for (const std::string& argument : argv) spec.add_argv(argument);
    spec.mutable_grace_period()->set_nanos(100'000'000);
    spec.set_token("secret");
    return spec;
  }
  static AttemptKey KeyOf(const LaunchSpec& spec) {
    return {spec.id().job_uid(), {spec.id().pool(), spec.id().index()}, spec.id().attempt()};
  }
  static std::string MarkerOf(const LaunchSpec& spec) {
    return spec.id().job_uid() + "/" + spec.replica_name() + "/" +
           std::to_string(spec.id().attempt());
  }
  static attempt::AttemptFiles FilesOf(const LaunchSpec& spec) {
    return attempt::AttemptFiles(spec.attempt_directory());
  }
  static int AgentPid(const LaunchSpec& spec) {
    const auto agent = FilesOf(spec).ReadAgent();
    return agent ? agent->pid : -1;
  }
  bool AwaitRunning(const LaunchSpec& spec, size_t processes = 1) {
    return Await([&] {
      return AgentPid(spec) > 0 && FindMarkedProcesses(MarkerOf(spec)).size() >= processes;
    });
  }
  bool AwaitEnded(size_t count = 1) {
    return Await([&] { return listener_.ended.size() >= count; });
  }
  // Nothing is left of the job, after its release.
  void ExpectClean(const std::string& uid) {
    EXPECT_THAT(FindLeaks({uid, directory_ / "jobs" / uid, {}}).findings, ::testing::IsEmpty());
    for (const fs::path& base : cgroup_bases_) EXPECT_FALSE(fs::exists(base / uid)) << base;
  }

  const fs::path directory_ = fs::temp_directory_path() / ("muster-engine-" + RandomHex(12));
  const SystemClock clock_;
  std::vector<fs::path> cgroup_bases_;
  boost::asio::io_context io_{1};
  Recorder listener_;
  LocalEngineOptions options_;
  std::unique_ptr<LocalEngine> engine_;
};

}  // namespace muster::engine
