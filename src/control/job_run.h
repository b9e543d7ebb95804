// One job that is not yet ended: its Lifecycle, and what its events and actions mean for the store,
// the engine and the API's view of it.
//
// Thread rule: everything happens on the control loop.
// Invariants:
//  1. Starts are carried out only after the change that decided them is stored, so that after a
//     crash every attempt that may be running is known.
//  2. The gang is released before the terminal state is stored, so that whoever sees the state
//  finds
//     nothing of the job left.
//  3. Events of the engine and of agents about attempts that are not current change nothing.
#pragma once

#include <google/cloud/aiplatform/v1/custom_job.pb.h>
#include <muster/v1/agent.pb.h>
#include <muster/v1/job_view.pb.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/system_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "control/launch.h"
#include "engine/engine.h"
#include "job/lifecycle.h"
#include "store/store.h"

namespace muster::control {

// What all jobs share; outlives them.
struct RunContext {
  boost::asio::io_context& loop;
  store::Store& store;
  engine::Engine& engine;
  const Clock& clock;
  const ImageMap& images;
  const bucket::BucketDirectories& buckets;
  const LaunchSite& site;
};

class JobRun {
 public:
  // `on_finished` is called once, from the loop, after the terminal state is stored; the JobRun may
  // be destroyed in it.
  JobRun(const RunContext& context, google::cloud::aiplatform::v1::CustomJob job,
         store::JobRecord record, job::JobPlan plan, job::Lifecycle lifecycle,
         std::function<void(JobRun&)> on_finished);

  // A new job: asks the engine for places.
  void Begin();
  // After a restart of musterd: takes gang and attempts back from the engine. `attempts` are the
  // stored ones.
  Status Resume(const std::vector<store::AttemptRecord>& attempts);

  void Admit(const engine::Grant& grant);
  void Cancel();
  // UNAUTHENTICATED on a wrong token, NOT_FOUND for an attempt that is not this job's.
  Result<muster::v1::ReportResponse> Report(const muster::v1::ReportRequest& report);
  void AgentEnded(const engine::AttemptKey& attempt);
  // Calls back once all that was handled before is stored.
  void WhenSaved(std::function<void()> done);

  const std::string& uid() const { return record_.job_uid; }
  const job::Lifecycle& lifecycle() const { return lifecycle_; }

 private:
  struct Attempt {
    muster::v1::AttemptView view;
    muster::v1::LaunchSpec launch;
    std::optional<google::protobuf::Timestamp> started;  // as the agent reported it
    std::optional<muster::v1::Exited> exited;
    bool dirty = false;
  };
  using AttemptId = std::pair<job::ReplicaId, int>;

  void Handle(const job::Event& event);
  void NoteInViews(const job::Event& event, Time now);
  void Prepare(const std::vector<job::Action>& actions);
  Status PrepareStart(const job::action::StartReplica& start);
  void ReleaseGang();
  void Save();
  void SaveSoon();
  void CarryOut(const std::vector<job::Action>& actions);
  void AddLine(bool is_error, std::string text);
  void ArmDeadline();
  void Publish();
  engine::Gang GangOf() const;
  engine::AttemptKey KeyOf(const AttemptId& id) const {
    return {record_.job_uid, id.first, id.second};
  }
  Attempt* Find(const AttemptId& id);
  std::optional<muster::v1::Exited> ReportOf(const Attempt& attempt) const;
  job::ExitCause CauseOf(const Attempt& attempt) const;
  void ResumeAttempt(const AttemptId& id, Attempt& attempt);
  // Runs `work` from the loop unless the JobRun is gone by then.
  void Post(std::function<void()> work);

  const RunContext& context_;
  google::cloud::aiplatform::v1::CustomJob job_;
  store::JobRecord record_;
  const job::JobPlan plan_;
  const job::JobIdentity identity_;
  job::Lifecycle lifecycle_;
  std::function<void(JobRun&)> on_finished_;

  engine::Grant grant_;
  std::map<AttemptId, Attempt> attempts_;
  std::vector<store::EventRecord> unsaved_lines_;
  std::vector<job::Action> unsaved_actions_;
  std::vector<std::function<void()>> save_waiters_;
  bool dirty_ = false;
  bool save_scheduled_ = false;
  bool finished_ = false;
  boost::asio::system_timer deadline_timer_;
  boost::asio::system_timer retry_timer_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// "project", number, region and id out of projects/p/locations/l/customJobs/123. A project that is
// no number gets one made from its name, always the same.
job::JobIdentity IdentityOf(const std::string& resource_name);

// The stored form of a CustomJob.
store::Resource ToResource(const google::cloud::aiplatform::v1::CustomJob& job);

}  // namespace muster::control
