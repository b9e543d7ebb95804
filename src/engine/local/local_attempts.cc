// LocalEngine's attempts: starting, stopping, taking back, ending.
#include <fmt/format.h>
#include <muster/v1/agent.pb.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "attempt/files.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/local/launcher.h"
#include "engine/local/local_engine.h"
#include "engine/local/process_tree.h"

namespace muster::engine {

namespace fs = std::filesystem;
using muster::v1::LaunchSpec;
using std::chrono::milliseconds;

namespace {
constexpr milliseconds kDefaultGrace{10'000};

AttemptKey KeyOf(const LaunchSpec& spec) {
  return {spec.id().job_uid(), {spec.id().pool(), spec.id().index()}, spec.id().attempt()};
}

attempt::AttemptFiles FilesOf(const LaunchSpec& spec) {
  return attempt::AttemptFiles(spec.attempt_directory());
}

// workerpool1-0; the spec's own name if it has one.
std::string ReplicaNameOf(const LaunchSpec& spec) {
  if (!spec.replica_name().empty()) return spec.replica_name();
  return fmt::format("workerpool{}-{}", spec.id().pool(), spec.id().index());
}

std::string MarkerOf(const LaunchSpec& spec) {
  for (const auto& variable : spec.environment()) {
    if (variable.name() == attempt::kAttemptVariable) return variable.value();
  }
  return fmt::format("{}/{}/{}", spec.id().job_uid(), ReplicaNameOf(spec), spec.id().attempt());
}

void MarkEnvironment(LaunchSpec& spec) {
  const std::string marker = MarkerOf(spec);
  for (const auto& variable : spec.environment()) {
    if (variable.name() == attempt::kAttemptVariable) return;
  }
  auto& variable = *spec.add_environment();
  variable.set_name(std::string(attempt::kAttemptVariable));
  variable.set_value(marker);
}

std::vector<fs::path> CgroupsOf(const LaunchSpec& spec) {
  std::vector<fs::path> cgroups;
  const auto& isolation = spec.isolation();
  for (const std::string& path :
       {isolation.cgroup_directory(), isolation.memory_cgroup_directory()}) {
    if (!path.empty() && (cgroups.empty() || cgroups[0] != path)) cgroups.emplace_back(path);
  }
  return cgroups;
}

WatchedAttempt WatchedOf(const LaunchSpec& spec, milliseconds kill_margin) {
  WatchedAttempt watched{.key = KeyOf(spec),
                         .name = fmt::format("job {}: {}, attempt {}", spec.id().job_uid(),
                                             ReplicaNameOf(spec), spec.id().attempt()),
                         .marker = MarkerOf(spec),
                         .files = FilesOf(spec),
                         .cgroups = CgroupsOf(spec)};
  watched.kill_margin = kill_margin;
  watched.grace = kDefaultGrace;
  if (spec.has_grace_period()) {
    watched.grace = milliseconds(spec.grace_period().seconds() * 1000 +
                                 spec.grace_period().nanos() / 1'000'000);
  }
  return watched;
}

// agent.json alone cannot tell: it is not synced, so a power cut may have taken it.
bool WasBeforeThisBoot(const LaunchSpec& spec, const Result<attempt::ProcessIdentity>& agent) {
  const auto boot_id = attempt::ThisBootId();
  if (!boot_id) return false;
  return (!spec.boot_id().empty() && spec.boot_id() != *boot_id) ||
         (agent && agent->boot_id != *boot_id);
}
}  // namespace

void LocalEngine::FillIsolation(const Holding& holding, LaunchSpec& spec) const {
  auto& isolation = *spec.mutable_isolation();
  isolation.Clear();
  if (holding.namespaces.network) isolation.set_network_namespace_fd(kNetworkNamespaceFd);
  if (holding.namespaces.user) isolation.set_user_namespace_fd(kUserNamespaceFd);
  if (WantsMounts() && (!abilities_.needs_user || holding.namespaces.user)) {
    const auto mount = [&](const fs::path& source, const std::string& target) {
      auto& added = *isolation.add_mounts();
      added.set_source(source.string());
      added.set_target(target);
    };
    if (!options_.buckets_directory.empty()) {
      mount(options_.buckets_directory, "/gcs");
      for (const auto& [name, directory] : options_.buckets_elsewhere) {
        mount(directory, "/gcs/" + name);
      }
    }
    mount(FilesOf(spec).log_storage(), "/var/log-storage");
  }
  const auto cgroups = cgroups_.Prepare(
      spec.id().job_uid(), fmt::format("{}-{}", ReplicaNameOf(spec), spec.id().attempt()));
  isolation.set_cgroup_directory(cgroups.kill.string());
  if (!options_.memory_limits) return;
  isolation.set_memory_cgroup_directory(cgroups.memory.string());
  const job::ReplicaId replica{spec.id().pool(), spec.id().index()};
  for (const GangMember& member : holding.gang.members) {
    if (member.replica == replica && !cgroups.memory.empty()) {
      isolation.set_memory_limit_bytes(member.memory_mb * 1024 * 1024);
    }
  }
}

std::map<int, int> LocalEngine::InheritedFds(const Holding& holding, job::ReplicaId replica) const {
  const auto lease = [&](int port) {
    const auto found = holding.leases.find(port);
    return found == holding.leases.end() ? -1 : found->second.fd.get();
  };
  const auto place = holding.grant.places.find(replica);
  return {{kNetworkNamespaceFd, holding.namespaces.network.get()},
          {kUserNamespaceFd, holding.namespaces.user.get()},
          {kPortLeaseFd, place == holding.grant.places.end() ? -1 : lease(place->second.port)},
          {kMasterPortLeaseFd, lease(holding.grant.master_port)}};
}

AttemptWatch& LocalEngine::NewWatch(const LaunchSpec& spec) {
  const AttemptKey key = KeyOf(spec);
  auto& watch = watches_[key];
  watch = std::make_unique<AttemptWatch>(
      loop_, WatchedOf(spec, options_.kill_margin), [this, key] { OnEnded(key); },
      [this, key, isolation = spec.isolation()] { OnFound(key, isolation); });
  return *watch;
}

Status LocalEngine::Start(const LaunchSpec& given) {
  const AttemptKey key = KeyOf(given);
  const auto found = holdings_.find(key.job_uid);
  if (found == holdings_.end() || found->second.releasing) {
    return Fail(Code::kFailedPrecondition, "job {} has no place: {} cannot start", key.job_uid,
                ReplicaNameOf(given));
  }
  if (watches_.contains(key)) return {};
  Holding& holding = found->second;
  const attempt::AttemptFiles files = FilesOf(given);
  if (files.IsLocked() || files.ReadAgent().has_value()) {
    // It was started before a crash: what is left to do is to tell how it ends.
    NewWatch(files.ReadLaunch().value_or(given)).WatchAdopted();
    return {};
  }
  if (const Status made = EnsureNamespaces(holding); !made) {
    if (holding.grant.private_network) return made;
    LogWarning("job {}: {}", key.job_uid, made.error().message);
  }
  LaunchSpec spec = given;
  MarkEnvironment(spec);
  MUSTER_TRY(MakeDirectories(files.directory()));
  FillIsolation(holding, spec);
  MUSTER_TRY(files.WriteLaunch(spec));
  for (auto& [port, lease] : holding.leases) {
    if (!lease.fd) lease = PortPool::Take(port);
  }
  MUSTER_ASSIGN(AgentProcess agent,
                SpawnAgent(options_.agent_binary, files.directory(), files.agent_log(),
                           InheritedFds(holding, key.replica)));
  NewWatch(spec).WatchSpawned(std::move(agent));
  return {};
}

void LocalEngine::Stop(const AttemptKey& attempt) {
  const auto watch = watches_.find(attempt);
  if (watch != watches_.end()) watch->second->Stop();
}

AttemptFate LocalEngine::AdoptAttempt(const LaunchSpec& given) {
  const AttemptKey key = KeyOf(given);
  if (watches_.contains(key)) return AttemptFate::kRunning;
  const attempt::AttemptFiles files = FilesOf(given);
  // What the agent was told, not what it would be told today.
  const LaunchSpec launch = files.ReadLaunch().value_or(given);
  if (!files.IsLocked()) {
    const auto agent = files.ReadAgent();
    if (WasBeforeThisBoot(given, agent)) return AdoptFromEarlierBoot(launch);
    if (agent || agent.error().code != Code::kNotFound) {
      NewWatch(launch).Clear();
      return AttemptFate::kRunning;
    }
    // An agent may have been started a moment before musterd died, and not be so far as to take the
    // attempt. Without launch.json it never will.
    const auto lock = files.Lock();
    if (lock || lock.error().code != Code::kAborted) {
      ::unlink(files.launch().c_str());
      return AttemptFate::kNeverLaunched;
    }
  }
  NewWatch(launch).WatchAdopted();
  return AttemptFate::kRunning;
}

// Nothing of it can run. Its report, if it made one, still counts.
AttemptFate LocalEngine::AdoptFromEarlierBoot(const LaunchSpec& launch) {
  if (FilesOf(launch).ReadReport()) {
    NewWatch(launch).Clear();
    return AttemptFate::kRunning;
  }
  const AttemptKey key = KeyOf(launch);
  if (!clearing_.insert(key).second) return AttemptFate::kHostLost;
  const WatchedAttempt watched = WatchedOf(launch, options_.kill_margin);
  loop_.InBackground([watched] { RemoveRemains(watched.files, watched.cgroups, watched.name); },
                     [this, key] {
                       clearing_.erase(key);
                       FinishReleaseIfDue(key.job_uid);
                     });
  return AttemptFate::kHostLost;
}

// The agent of an adopted attempt is known: what it inherited is the job's.
void LocalEngine::OnFound(const AttemptKey& key, const muster::v1::Isolation& isolation) {
  const auto found = holdings_.find(key.job_uid);
  if (found == holdings_.end()) return;
  Holding& holding = found->second;
  const AttemptWatch& watch = *watches_.at(key);
  const bool wants_network = holding.grant.private_network && !holding.namespaces.network;
  const bool wants_user = isolation.user_namespace_fd() > 0 && !holding.namespaces.user;
  if (wants_network || wants_user) {
    auto reopened = ReopenNamespaces(watch.agent_pid(), isolation.network_namespace_fd(),
                                     isolation.user_namespace_fd());
    if (reopened) {
      holding.namespaces = std::move(*reopened);
    } else {
      LogWarning("{}: {}", watch.attempt().name, reopened.error().message);
    }
  }
  const auto take = [&](int port, int fd) {
    const auto lease = holding.leases.find(port);
    if (lease != holding.leases.end() && !lease->second.fd) {
      lease->second = PortPool::TakeFrom(port, watch.pidfd(), fd);
    }
  };
  const auto place = holding.grant.places.find(key.replica);
  if (place != holding.grant.places.end()) take(place->second.port, kPortLeaseFd);
  take(holding.grant.master_port, kMasterPortLeaseFd);
}

void LocalEngine::OnEnded(const AttemptKey& key) {
  const auto watch = watches_.extract(key);  // lives until this function returns
  std::vector<int> agents;
  for (const auto& [other, running] : watches_) agents.push_back(running->agent_pid());
  if (options_.subreaper) ReapOrphans(agents);
  if (const auto holding = holdings_.find(key.job_uid); holding != holdings_.end()) {
    for (auto& [port, lease] : holding->second.leases) {
      if (!lease.fd) lease = PortPool::Take(port);  // the agent may have been who held it
    }
  }
  listener_.OnAgentEnded(key);
  FinishReleaseIfDue(key.job_uid);
}

Result<muster::v1::Exited> LocalEngine::ReadReport(const LaunchSpec& spec) const {
  MUSTER_ASSIGN(const muster::v1::ReportRequest report, FilesOf(spec).ReadReport());
  return report.exited();
}

}  // namespace muster::engine
