// The engine for one machine: this one.
//
// Places are ports of the machine, or of a private network with only a loopback; GPUs are handed
// out exclusively; cores and memory are counted, and limits are set where cgroups permit. Agents
// are child processes that outlive musterd and are found again by their attempt directories.
//
// Who does what: admission.h decides, ports.h, namespaces.h and cgroups.h provide, launcher.h
// starts, attempt_watch.h follows each attempt to its end, leak_check.h looks what is left.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/thread_annotations.h"
#include "base/time.h"
#include "engine/engine.h"
#include "engine/local/admission.h"
#include "engine/local/attempt_watch.h"
#include "engine/local/cgroups.h"
#include "engine/local/event_loop.h"
#include "engine/local/machine.h"
#include "engine/local/namespaces.h"
#include "engine/local/ports.h"

namespace muster::v1 {
class Isolation;
}

namespace muster::engine {

struct LocalEngineOptions {
  std::filesystem::path data_directory;  // attempts lie in jobs/<job uid>/ below it
  std::filesystem::path agent_binary;    // muster-agent
  // vCPUs and memory that are admitted at once, as a multiple of the machine's.
  double oversubscribe = 16;
  // Instead of what is found.
  std::optional<double> cpus;
  std::optional<int64_t> memory_mb;
  std::optional<int> gpus;
  GpuFinder find_gpus;
  // A job that asks for accelerators which the machine lacks: waits, or runs with what there is
  // after a warning.
  bool wait_for_accelerators = false;
  // A network of each job's own, where the machine permits it; else the host's, with a warning.
  bool private_network = false;
  PortRange ports;  // adapted if the kernel uses it for outgoing connections
  // Seen by replicas as /gcs; empty: not.
  std::filesystem::path buckets_directory;
  // Buckets that lie elsewhere, by name: seen as /gcs/<name>. buckets_directory holds an empty
  // directory of that name to mount them on.
  std::map<std::string, std::filesystem::path> buckets_elsewhere;
  bool mounts = true;         // /gcs and /var/log-storage, where the machine permits mounts
  bool memory_limits = true;  // the machine type's memory, where a memory cgroup is writable
  CgroupOptions cgroups;
  // Takes replicas' orphans in, so that their remains are reaped whatever process 1 is.
  bool subreaper = true;
  std::chrono::milliseconds kill_margin{5'000};  // for an agent to end, past its grace period
};

// Whether replicas will see /gcs. Found by doing it; may be asked before there is an engine.
bool CanMount(const LocalEngineOptions& options);

class LocalEngine final : public Engine {
 public:
  // `io` must be run by one thread. It and all the others must outlive the engine.
  LocalEngine(boost::asio::io_context& io, Listener& listener, LocalEngineOptions options,
              const Clock& clock);
  // Agents and what they run stay.
  ~LocalEngine() override;

  Status Request(const Gang& gang) override;
  std::string WhyWaiting(const std::string& job_uid) const override EXCLUDES(mutex_);
  Status Start(const muster::v1::LaunchSpec& spec) override;
  void Stop(const AttemptKey& attempt) override;
  void Release(const std::string& job_uid) override;
  void Adopt(const Gang& gang, const Grant& grant) override;
  AttemptFate AdoptAttempt(const muster::v1::LaunchSpec& spec) override;
  Result<muster::v1::Exited> ReadReport(const muster::v1::LaunchSpec& spec) const override;

  // What was found and what is permitted, for musterd's log: one fact a line.
  std::vector<std::string> Describe() const;
  const Machine& machine() const { return machine_; }
  const Cgroups& cgroups() const { return cgroups_; }

 private:
  // An admitted gang.
  struct Holding {
    Gang gang;
    Grant grant;
    Namespaces namespaces;
    std::map<int, PortLease> leases;  // by port; none in a private network
    bool releasing = false;           // as soon as its attempts have ended
  };

  Status CheckGang(const Gang& gang) const;
  void AdmitSoon();
  void AdmitAll();
  bool AdmitNext();
  Result<Holding> Provide(const Gang& gang);
  Status EnsureNamespaces(Holding& holding);
  bool WantsMounts() const;

  void FillIsolation(const Holding& holding, muster::v1::LaunchSpec& spec) const;
  std::map<int, int> InheritedFds(const Holding& holding, job::ReplicaId replica) const;
  AttemptWatch& NewWatch(const muster::v1::LaunchSpec& spec);
  AttemptFate AdoptFromEarlierBoot(const muster::v1::LaunchSpec& launch);
  void OnFound(const AttemptKey& key, const muster::v1::Isolation& isolation);
  void OnEnded(const AttemptKey& key);
  void FinishRelease(const std::string& job_uid);
  void FinishReleaseIfDue(const std::string& job_uid);
  void RemoveAbandonedCgroups() const;
  // Of which something runs, or is being removed.
  bool HasAttempts(const std::string& job_uid) const;

  const Clock& clock_;
  Listener& listener_;
  const LocalEngineOptions options_;
  const Machine machine_;
  const NamespaceAbilities abilities_;
  const Cgroups cgroups_;
  PortPool ports_;
  mutable Mutex mutex_;
  Admission admission_ GUARDED_BY(mutex_);
  // Why the gang at the head of the queue, which fits, is not admitted: no ports, for example.
  std::string obstacle_ GUARDED_BY(mutex_);
  struct Waiting {
    Gang gang;
    Time since;
  };
  std::map<std::string, Waiting> waiting_;
  std::map<std::string, Holding> holdings_;
  std::map<AttemptKey, std::unique_ptr<AttemptWatch>> watches_;
  std::set<AttemptKey> clearing_;  // of an earlier boot; no watch follows them
  bool admitting_ = false;         // AdmitAll is posted
  Subscription retry_;
  Subscription abandoned_;
  EventLoop loop_;  // last: when it is destroyed, nothing of the above is called any more
};

}  // namespace muster::engine
