// An engine for tests: places are granted at once (or on demand), attempts end when told to.
#pragma once

#include <muster/v1/agent.pb.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace muster::control {

// On the loop only, except where tests read it while the loop stands still.
class FakeEngine final : public engine::Engine {
 public:
  explicit FakeEngine(boost::asio::io_context& loop) : loop_(loop) {}

  void Attach(engine::Listener& listener) { listener_ = &listener; }

  bool admit = true;                                        // answer Request with a grant
  bool stops_end_attempts = true;                           // Stop ends the attempt with 143
  std::string refuse;                                       // non-empty: Request fails with it
  std::string refuse_start;                                 // non-empty: Start fails with it
  std::map<engine::AttemptKey, engine::AttemptFate> fates;  // for AdoptAttempt; else kRunning
  std::map<engine::AttemptKey, muster::v1::LaunchSpec> running;
  std::map<engine::AttemptKey, muster::v1::Exited> reports;
  std::vector<engine::AttemptKey> started, stopped;
  std::set<std::string> held;  // gangs
  std::vector<std::string> released;

  static engine::AttemptKey KeyOf(const muster::v1::LaunchSpec& spec) {
    return {spec.id().job_uid(), {spec.id().pool(), spec.id().index()}, spec.id().attempt()};
  }

  // The attempt's agent leaves a report, or none, and is gone.
  void End(const engine::AttemptKey& key, muster::v1::Exited::Cause cause, int status,
           const std::string& detail = "") {
    muster::v1::Exited& report = reports[key];
    report.set_cause(cause);
    report.set_status(status);
    report.set_detail(detail);
    EndWithoutReport(key);
  }
  void EndWithoutReport(const engine::AttemptKey& key) {
    running.erase(key);
    boost::asio::post(loop_, [this, key] { listener_->OnAgentEnded(key); });
  }

  Status Request(const engine::Gang& gang) override {
    if (!refuse.empty()) return Fail(Code::kFailedPrecondition, "{}", refuse);
    gangs_[gang.job_uid] = gang;
    if (admit) Grant(gang.job_uid);
    return {};
  }
  void Grant(const std::string& job_uid) {
    engine::Grant grant;
    int port = 2222;
    for (const engine::GangMember& member : gangs_.at(job_uid).members) {
      grant.places[member.replica] = {.host = "127.0.0.1", .port = port++, .gpus = {}};
    }
    grant.master_host = "127.0.0.1";
    grant.master_port = port;
    grant.warnings = {"no accelerator here"};
    held.insert(job_uid);
    boost::asio::post(loop_, [this, job_uid, grant] { listener_->OnAdmitted(job_uid, grant); });
  }
  std::string WhyWaiting(const std::string& job_uid) const override {
    return held.contains(job_uid) ? "" : "needs 8 vCPUs; 4 are free";
  }
  Status Start(const muster::v1::LaunchSpec& spec) override {
    if (!refuse_start.empty()) return Fail(Code::kInternal, "{}", refuse_start);
    started.push_back(KeyOf(spec));
    running[KeyOf(spec)] = spec;
    return {};
  }
  void Stop(const engine::AttemptKey& attempt) override {
    stopped.push_back(attempt);
    if (stops_end_attempts && running.contains(attempt)) {
      End(attempt, muster::v1::Exited::STOPPED, 143);
    }
  }
  void Release(const std::string& job_uid) override {
    held.erase(job_uid);
    released.push_back(job_uid);
  }
  void Adopt(const engine::Gang& gang, const engine::Grant&) override {
    gangs_[gang.job_uid] = gang;
    held.insert(gang.job_uid);
  }
  engine::AttemptFate AdoptAttempt(const muster::v1::LaunchSpec& spec) override {
    const auto fate = fates.find(KeyOf(spec));
    if (fate == fates.end()) {
      running[KeyOf(spec)] = spec;
      return engine::AttemptFate::kRunning;
    }
    return fate->second;
  }
  Result<muster::v1::Exited> ReadReport(const muster::v1::LaunchSpec& spec) const override {
    const auto report = reports.find(KeyOf(spec));
    if (report == reports.end()) return Fail(Code::kNotFound, "no report");
    return report->second;
  }

 private:
  boost::asio::io_context& loop_;
  engine::Listener* listener_ = nullptr;
  std::map<std::string, engine::Gang> gangs_;
};

}  // namespace muster::control
