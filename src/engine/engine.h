// An engine places agents and kills them; it never interprets what they do. Agents report the
// truth to the control plane, which decides the state.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "job/types.h"

namespace muster::v1 {
class LaunchSpec;
class Exited;
}  // namespace muster::v1

namespace muster::engine {

struct GangMember {
  job::ReplicaId replica;
  double vcpus = 0;
  int64_t memory_mb = 0;
  int accelerator_count = 0;
  std::string accelerator_type;
};

// All replicas of a job: admitted together or not at all.
struct Gang {
  std::string job_uid;
  std::vector<GangMember> members;
  std::string name = {};  // what users call the job, for messages; empty: job_uid
};

struct Place {
  std::string host;       // where the replica is reached: "127.0.0.1"
  int port = 0;           // for CLUSTER_SPEC; leased until the gang is released
  std::vector<int> gpus;  // for CUDA_VISIBLE_DEVICES
};

struct Grant {
  std::map<job::ReplicaId, Place> places;
  std::string master_host;
  int master_port = 0;                // for MASTER_PORT; none of the places'
  bool private_network = false;       // else the host's
  std::vector<std::string> warnings;  // for the user: accelerators that this machine lacks, …
};

// One run of one replica.
struct AttemptKey {
  std::string job_uid;
  job::ReplicaId replica;
  int attempt = 0;

  auto operator<=>(const AttemptKey&) const = default;
};

// What is known of an attempt without its agent.
enum class AttemptFate {
  kNeverLaunched,  // no agent ever ran: it may be started
  // Its agent is alive, or what it left is being ended and removed. OnAgentEnded follows when
  // nothing is left: only then may its end be written down, or a crash could leave remains.
  kRunning,
  // For engines that know at once that nothing is left; LocalEngine answers kRunning instead.
  kReported,   // ended, and the agent's last report is on disk
  kAgentLost,  // the agent died without a report
  kHostLost,   // the machine was restarted meanwhile: nothing runs; Release waits for its removal
};

// Callbacks come on the engine's event loop, one at a time.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void OnAdmitted(const std::string& job_uid, const Grant& grant) = 0;
  // The agent's process has ended and nothing of the replica is left. Its last report, if it made
  // one, is ReadReport(): it may not have reached AgentService.
  virtual void OnAgentEnded(const AttemptKey& attempt) = 0;
};

// Thread rule: every method is called on the event loop that the engine was built with, and so is
// the Listener; WhyWaiting may be called from any thread.
class Engine {
 public:
  virtual ~Engine() = default;

  // Queues the gang, first in first out; answers with OnAdmitted, later or never.
  // FAILED_PRECONDITION if it can never be admitted, with the reason.
  virtual Status Request(const Gang& gang) = 0;
  // One sentence for the user; empty if the job does not wait.
  virtual std::string WhyWaiting(const std::string& job_uid) const = 0;

  // Starts an agent. Idempotent: at most one agent ever runs for an attempt, also across crashes.
  // Fills in the spec's isolation and, from the grant, descriptors.
  virtual Status Start(const muster::v1::LaunchSpec& spec) = 0;
  // Asks the agent to stop its replica: SIGTERM, grace, SIGKILL. The agent is killed if it has not
  // ended some seconds after its grace period. OnAgentEnded follows.
  virtual void Stop(const AttemptKey& attempt) = 0;
  // Frees the gang's places, ports and namespaces, or takes it from the queue.
  virtual void Release(const std::string& job_uid) = 0;

  // After a restart of musterd: takes back a gang that was admitted, with the grant it had, and
  // its attempts; OnAgentEnded will come for those that are kRunning. AdoptAttempt never waits.
  virtual void Adopt(const Gang& gang, const Grant& grant) = 0;
  virtual AttemptFate AdoptAttempt(const muster::v1::LaunchSpec& spec) = 0;

  // The last report that the attempt's agent left; NOT_FOUND if none.
  virtual Result<muster::v1::Exited> ReadReport(const muster::v1::LaunchSpec& spec) const = 0;
};

}  // namespace muster::engine
