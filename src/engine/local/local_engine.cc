#include "engine/local/local_engine.h"

#include <fmt/format.h>
#include <muster/v1/agent.pb.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "engine/local/leak_check.h"
#include "engine/local/process_tree.h"

namespace muster::engine {

namespace fs = std::filesystem;

namespace {
constexpr std::chrono::seconds kRetryAdmission{1};
constexpr std::chrono::seconds kRemoveAbandonedAfter{10};
constexpr int kPrivateFirstPort = 2222;  // as on Vertex AI

// The same for a data directory whenever and by whomever it is opened; apart from others'.
std::string IdOf(const fs::path& data_directory) {
  std::error_code error;
  const std::string path = fs::weakly_canonical(data_directory, error).string();
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const unsigned char byte : path) hash = (hash ^ byte) * 1099511628211u;
  return fmt::format("{:012x}", hash >> 16);
}

// "32768 60999"
std::string EphemeralPorts() {
  std::string text = ReadFile("/proc/sys/net/ipv4/ip_local_port_range").value_or("32768 60999");
  std::ranges::replace(text, '\t', ' ');
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

Limits LimitsOf(const Machine& machine, double oversubscribe) {
  Limits limits;
  limits.vcpus = machine.cores * oversubscribe;
  limits.memory_mb = int64_t(double(machine.memory_mb) * oversubscribe);
  limits.oversubscribe = oversubscribe;
  for (const Gpu& gpu : machine.gpus) limits.gpus.push_back(gpu.index);
  return limits;
}
}  // namespace

bool CanMount(const LocalEngineOptions& options) {
  return options.mounts && !options.buckets_directory.empty() && FindNamespaceAbilities().mount;
}

LocalEngine::LocalEngine(boost::asio::io_context& io, Listener& listener,
                         LocalEngineOptions options, const Clock& clock)
    : clock_(clock),
      listener_(listener),
      options_(std::move(options)),
      machine_(FindMachine({options_.cpus, options_.memory_mb, options_.gpus, options_.find_gpus})),
      abilities_(FindNamespaceAbilities()),
      cgroups_(Cgroups::Find(options_.cgroups, IdOf(options_.data_directory))),
      ports_(AdaptPortRange(options_.ports, EphemeralPorts())),
      admission_(LimitsOf(machine_, options_.oversubscribe), options_.wait_for_accelerators
                                                                 ? AcceleratorPolicy::kWait
                                                                 : AcceleratorPolicy::kRunWithout),
      loop_(io) {
  if (options_.subreaper) ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  // After musterd took back the jobs that go on.
  abandoned_ = loop_.After(kRemoveAbandonedAfter, [this] { RemoveAbandonedCgroups(); });
  const PortRange range = ports_.range();
  if (!options_.private_network && range != options_.ports) {
    LogWarning(
        "ports {}–{} are used for jobs instead of {}–{}: the kernel gives {} to outgoing "
        "connections (net.ipv4.ip_local_port_range)",
        range.first, range.last, options_.ports.first, options_.ports.last, EphemeralPorts());
  }
}

LocalEngine::~LocalEngine() { RemoveAbandonedCgroups(); }

Status LocalEngine::CheckGang(const Gang& gang) const {
  if (gang.job_uid.empty() || gang.job_uid.starts_with('.') ||
      gang.job_uid.find('/') != std::string::npos) {
    return Fail(Code::kInvalidArgument, "\"{}\" cannot name a job's directory", gang.job_uid);
  }
  std::set<job::ReplicaId> replicas;
  for (const GangMember& member : gang.members) replicas.insert(member.replica);
  if (gang.members.empty() || replicas.size() != gang.members.size()) {
    return Fail(Code::kInvalidArgument, "job {} has no replicas, or one of them twice",
                gang.job_uid);
  }
  const size_t ports = gang.members.size() + 1;
  const size_t range = size_t(ports_.range().last - ports_.range().first + 1);
  if (!options_.private_network && ports > range) {
    return Fail(Code::kFailedPrecondition,
                "the job needs {} ports and port_range has {}: enlarge it, or use the network "
                "\"private\"",
                ports, range);
  }
  return {};
}

Status LocalEngine::Request(const Gang& gang) {
  MUSTER_TRY(CheckGang(gang));
  {
    const MutexLock lock(mutex_);
    MUSTER_TRY(admission_.Queue(gang));
  }
  waiting_[gang.job_uid] = {gang, clock_.Now()};
  AdmitSoon();
  return {};
}

std::string LocalEngine::WhyWaiting(const std::string& job_uid) const {
  const MutexLock lock(mutex_);
  std::string why = admission_.WhyWaiting(job_uid);
  if (!obstacle_.empty() && admission_.Next() == job_uid) why += "; " + obstacle_;
  return why;
}

// Never within a call of the control plane's, which would not expect OnAdmitted there.
void LocalEngine::AdmitSoon() {
  if (std::exchange(admitting_, true)) return;
  loop_.Post([this] { AdmitAll(); });
}

void LocalEngine::AdmitAll() {
  admitting_ = false;
  while (AdmitNext()) {
  }
}

bool LocalEngine::AdmitNext() {
  std::string job_uid;
  {
    const MutexLock lock(mutex_);
    job_uid = admission_.Next();
  }
  if (job_uid.empty()) return false;
  const Waiting waiting = waiting_.at(job_uid);
  Result<Holding> holding = Provide(waiting.gang);
  Admitted admitted;
  {
    const MutexLock lock(mutex_);
    obstacle_ = holding ? "" : holding.error().message;
    if (holding) admitted = admission_.Admit(job_uid);
  }
  if (!holding) {
    retry_ = loop_.After(kRetryAdmission, [this] { AdmitAll(); });
    return false;
  }
  auto& warnings = holding->grant.warnings;
  warnings.insert(warnings.begin(), admitted.warnings.begin(), admitted.warnings.end());
  for (auto& [replica, place] : holding->grant.places) {
    if (const auto gpus = admitted.gpus.find(replica); gpus != admitted.gpus.end()) {
      place.gpus = gpus->second;
    }
  }
  waiting_.erase(job_uid);
  const Grant grant = holding->grant;
  holdings_[job_uid] = std::move(*holding);
  LogInfo("job {}: admitted after {:.1f} s", job_uid,
          double((clock_.Now() - waiting.since).count()) / 1e6);
  listener_.OnAdmitted(job_uid, grant);
  return true;
}

// All that a gang needs besides cores, memory and GPUs.
Result<LocalEngine::Holding> LocalEngine::Provide(const Gang& gang) {
  Holding holding;
  holding.gang = gang;
  Grant& grant = holding.grant;
  if (options_.private_network) {
    grant.private_network = true;
    if (const Status made = EnsureNamespaces(holding); !made) {
      grant.private_network = false;
      grant.warnings.push_back(fmt::format(
          "This machine does not permit a private network ({}): the job uses the machine's own, "
          "where others may reach its ports.",
          made.error().message));
    }
  }
  std::vector<int> ports;
  if (grant.private_network) {
    for (size_t i = 0; i <= gang.members.size(); ++i) ports.push_back(kPrivateFirstPort + int(i));
  } else {
    MUSTER_ASSIGN(std::vector<PortLease> leases, ports_.Lease(gang.members.size() + 1));
    for (PortLease& lease : leases) {
      ports.push_back(lease.port);
      holding.leases[lease.port] = std::move(lease);
    }
  }
  grant.master_host = "127.0.0.1";
  grant.master_port = ports.back();
  for (size_t i = 0; i < gang.members.size(); ++i) {
    grant.places[gang.members[i].replica] = {"127.0.0.1", ports[i], {}};
  }
  return holding;
}

bool LocalEngine::WantsMounts() const { return options_.mounts && abilities_.mount; }

Status LocalEngine::EnsureNamespaces(Holding& holding) {
  NamespaceWish wish;
  wish.network = holding.grant.private_network;
  wish.user = abilities_.needs_user && (wish.network || WantsMounts());
  const bool complete =
      (!wish.network || holding.namespaces.network) && (!wish.user || holding.namespaces.user);
  if (complete) return {};
  if (wish.network && !abilities_.network) {
    return Fail(Code::kPermissionDenied, "{}", abilities_.why_no_network);
  }
  MUSTER_ASSIGN(holding.namespaces, MakeNamespaces(wish));
  return {};
}

void LocalEngine::Release(const std::string& job_uid) {
  waiting_.erase(job_uid);
  const auto holding = holdings_.find(job_uid);
  if (holding == holdings_.end()) {
    {
      const MutexLock lock(mutex_);
      admission_.Release(job_uid);
    }
    return AdmitSoon();
  }
  if (!HasAttempts(job_uid)) return FinishRelease(job_uid);
  holding->second.releasing = true;
  bool runs = false;
  for (const auto& [key, watch] : watches_) {
    if (key.job_uid != job_uid) continue;
    watch->Kill();
    runs = true;
  }
  if (runs) LogError("job {}: released while its replicas run; they are ended", job_uid);
}

bool LocalEngine::HasAttempts(const std::string& job_uid) const {
  const auto is_of_job = [&](const AttemptKey& key) { return key.job_uid == job_uid; };
  return std::ranges::any_of(clearing_, is_of_job) ||
         std::ranges::any_of(watches_, [&](const auto& entry) { return is_of_job(entry.first); });
}

void LocalEngine::FinishReleaseIfDue(const std::string& job_uid) {
  const auto holding = holdings_.find(job_uid);
  if (holding == holdings_.end() || !holding->second.releasing || HasAttempts(job_uid)) return;
  FinishRelease(job_uid);
}

// Of jobs of which nothing runs: perhaps a musterd that was killed did not come to remove them.
// Start makes them anew.
void LocalEngine::RemoveAbandonedCgroups() const {
  for (const std::string& job_uid : cgroups_.Jobs()) {
    if (!HasAttempts(job_uid)) cgroups_.RemoveJob(job_uid);
  }
  cgroups_.RemoveIfEmpty();
}

void LocalEngine::FinishRelease(const std::string& job_uid) {
  holdings_.erase(job_uid);
  {
    const MutexLock lock(mutex_);
    admission_.Release(job_uid);
  }
  for (const fs::path& left : cgroups_.RemoveJob(job_uid)) {
    LogWarning("job {}: the cgroup {} cannot be removed", job_uid, left.string());
  }
  if (holdings_.empty()) RemoveAbandonedCgroups();
  LeakScope scope{job_uid, options_.data_directory / "jobs" / job_uid, {}};
  if (cgroups_.can_kill()) scope.cgroups.push_back(cgroups_.kill_base() / job_uid);
  if (cgroups_.can_limit_memory()) scope.cgroups.push_back(cgroups_.memory_base() / job_uid);
  loop_.InBackground(
      [scope] {
        const Leaks leaks = FindLeaks(scope);
        for (const std::string& finding : leaks.findings) {
          LogWarning("job {} left {}", scope.job_uid, finding);
        }
        constexpr std::chrono::seconds kLimit{5};
        if (!leaks.processes.empty()) TreeKiller(scope.job_uid + "/", {}).StepFor(kLimit);
      },
      [] {});
  AdmitSoon();
}

void LocalEngine::Adopt(const Gang& gang, const Grant& grant) {
  Holding holding;
  holding.gang = gang;
  holding.grant = grant;
  std::map<job::ReplicaId, std::vector<int>> gpus;
  std::vector<int> ports = {grant.master_port};
  for (const auto& [replica, place] : grant.places) {
    gpus[replica] = place.gpus;
    ports.push_back(place.port);
  }
  if (!grant.private_network) {
    // Those that agents hold are taken over when the agents are found.
    for (const int port : ports) holding.leases[port] = PortPool::Take(port);
  }
  waiting_.erase(gang.job_uid);
  holdings_[gang.job_uid] = std::move(holding);
  const MutexLock lock(mutex_);
  admission_.Adopt(gang, std::move(gpus));
}

std::vector<std::string> LocalEngine::Describe() const {
  std::vector<std::string> lines;
  lines.push_back(fmt::format("machine: {:g} cores, {:.1f} GB of memory, {} GPU{}", machine_.cores,
                              double(machine_.memory_mb) / 1024, machine_.gpus.size(),
                              machine_.gpus.size() == 1 ? "" : "s"));
  for (const Gpu& gpu : machine_.gpus) {
    lines.push_back(fmt::format("GPU {}: {}", gpu.index, gpu.name));
  }
  const Limits limits = LimitsOf(machine_, options_.oversubscribe);
  lines.push_back(
      fmt::format("admits up to {:g} vCPUs and {:.0f} GB at once (the machine's times {:g})",
                  limits.vcpus, double(limits.memory_mb) / 1024, limits.oversubscribe));
  if (!options_.private_network) {
    lines.push_back(
        fmt::format("network: the host's, ports {}–{}", ports_.range().first, ports_.range().last));
  } else {
    lines.push_back(abilities_.network
                        ? "network: private to each job"
                        : fmt::format("network: the host's (private is not permitted: {})",
                                      abilities_.why_no_network));
  }
  lines.push_back(WantsMounts()      ? "/gcs: seen by replicas"
                  : !options_.mounts ? "/gcs: not mounted (mounts are off)"
                                     : fmt::format("/gcs: not mounted (not permitted: {})",
                                                   abilities_.why_no_mount));
  lines.push_back(fmt::format("cgroups: {}", cgroups_.can_kill() ? cgroups_.kill_base().string()
                                                                 : "none that is writable"));
  lines.push_back(fmt::format("memory limits: {}", !options_.memory_limits ? "off"
                                                   : cgroups_.can_limit_memory()
                                                       ? cgroups_.memory_base().string()
                                                       : "none (no memory cgroup is writable)"));
  return lines;
}

}  // namespace muster::engine
