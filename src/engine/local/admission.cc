#include "engine/local/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace muster::engine {

namespace {
// "12", "0.5": no trailing zeros.
std::string Number(double value) { return fmt::format("{:g}", std::round(value * 100) / 100); }

std::string Vcpus(double count) { return Number(count) + (count == 1 ? " vCPU" : " vCPUs"); }

std::string Memory(int64_t megabytes) {
  if (megabytes < 1024) return fmt::format("{} MB", megabytes);
  return Number(double(megabytes) / 1024) + " GB";
}

std::string Counted(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// "projects/p/locations/l/customJobs/7" → "customJobs/7".
std::string ShortName(const Gang& gang) {
  if (gang.name.empty()) return gang.job_uid;
  const size_t kind = gang.name.find("customJobs/");
  return kind == std::string::npos ? gang.name : gang.name.substr(kind);
}

bool IsTpu(const GangMember& member) { return member.accelerator_type.starts_with("TPU"); }

int Total(const std::map<job::ReplicaId, int>& counts) {
  int total = 0;
  for (const auto& [replica, count] : counts) total += count;
  return total;
}
}  // namespace

Admission::Admission(Limits limits, AcceleratorPolicy policy)
    : limits_(std::move(limits)), policy_(policy) {}

Status Admission::Queue(const Gang& gang) {
  const auto is_it = [&](const Demand& demand) { return demand.job_uid == gang.job_uid; };
  if (admitted_.contains(gang.job_uid) || std::ranges::any_of(queue_, is_it) ||
      std::ranges::any_of(aside_, is_it)) {
    return Fail(Code::kAlreadyExists, "job {} has already asked for its place", gang.job_uid);
  }
  Demand demand = DemandOf(gang);
  (demand.never.empty() ? queue_ : aside_).push_back(std::move(demand));
  return {};
}

std::string Admission::Next() const {
  if (queue_.empty() || !Fits(queue_.front())) return "";
  return queue_.front().job_uid;
}

Admitted Admission::Admit(const std::string& job_uid) {
  MUSTER_CHECK(!job_uid.empty() && Next() == job_uid);
  const Demand demand = std::move(queue_.front());
  queue_.pop_front();
  std::vector<int> free = gpus_free();
  Holding holding{demand.vcpus, demand.memory_mb, {}};
  auto next = free.begin();
  for (const auto& [replica, count] : demand.gpus) {
    holding.gpus[replica] = std::vector<int>(next, next + count);
    next += count;
  }
  Admitted admitted{job_uid, holding.gpus, demand.warnings};
  admitted_.emplace(job_uid, std::move(holding));
  return admitted;
}

void Admission::Adopt(const Gang& gang, std::map<job::ReplicaId, std::vector<int>> gpus) {
  Release(gang.job_uid);
  const Demand demand = DemandOf(gang);
  admitted_[gang.job_uid] = {demand.vcpus, demand.memory_mb, std::move(gpus)};
}

void Admission::Release(const std::string& job_uid) {
  const auto is_it = [&](const Demand& demand) { return demand.job_uid == job_uid; };
  std::erase_if(queue_, is_it);
  std::erase_if(aside_, is_it);
  admitted_.erase(job_uid);
}

// Summed anew each time, so that what is released is free again exactly.
double Admission::vcpus_used() const {
  double used = 0;
  for (const auto& [uid, holding] : admitted_) used += holding.vcpus;
  return used;
}

int64_t Admission::memory_mb_used() const {
  int64_t used = 0;
  for (const auto& [uid, holding] : admitted_) used += holding.memory_mb;
  return used;
}

std::vector<int> Admission::gpus_free() const {
  std::vector<int> free = limits_.gpus;
  for (const auto& [uid, holding] : admitted_) {
    for (const auto& [replica, gpus] : holding.gpus) {
      std::erase_if(free, [&](int gpu) { return std::ranges::find(gpus, gpu) != gpus.end(); });
    }
  }
  return free;
}

Admission::Demand Admission::DemandOf(const Gang& gang) const {
  Demand demand;
  demand.job_uid = gang.job_uid;
  demand.name = ShortName(gang);
  for (const GangMember& member : gang.members) {
    demand.vcpus += member.vcpus;
    demand.memory_mb += member.memory_mb;
    demand.gpus_asked += std::max(0, member.accelerator_count);
  }
  FitAccelerators(gang, demand);
  if (IsGiant(demand)) {
    demand.warnings.push_back(fmt::format(
        "The job asks for {} and {}, more than the {} and {} that this machine lends at "
        "once: it runs all the same, alone, and will be slower than on such machines.",
        Vcpus(demand.vcpus), Memory(demand.memory_mb), Vcpus(limits_.vcpus),
        Memory(limits_.memory_mb)));
  }
  return demand;
}

// If there are too few GPUs for what the gang asks, all its replicas get the same, at most what
// they ask for and as many as the machine has for each: replicas that differ would be of no use to
// an all-reduce.
void Admission::FitAccelerators(const Gang& gang, Demand& demand) const {
  if (demand.gpus_asked == 0) return;
  std::string type;
  int most = 0;
  bool tpu = false;
  std::map<job::ReplicaId, int> asked;
  for (const GangMember& member : gang.members) {
    if (member.accelerator_count <= 0) continue;
    if (type.empty()) type = member.accelerator_type;
    tpu = tpu || IsTpu(member);
    asked[member.replica] = IsTpu(member) ? 0 : member.accelerator_count;
    most = std::max(most, member.accelerator_count);
  }
  const int here = int(limits_.gpus.size());
  if (!tpu && Total(asked) <= here) {
    demand.gpus = std::move(asked);
    return;
  }
  const std::string machine_has = tpu         ? "no TPU"
                                  : here == 0 ? "no GPU"
                                              : "only " + Counted(here, "GPU");
  const std::string needs = fmt::format("{}{}", Counted(demand.gpus_asked, "accelerator"),
                                        type.empty() ? "" : fmt::format(" ({})", type));
  if (policy_ == AcceleratorPolicy::kWait) {
    demand.never = fmt::format(
        "needs {}, but this machine has {}: it will wait until it is cancelled (accelerators are "
        "set to be waited for)",
        needs, machine_has);
    return;
  }
  int cap = most;
  const auto capped = [&] {
    auto counts = asked;
    for (auto& [replica, count] : counts) count = std::min(count, cap);
    return counts;
  };
  while (cap > 0 && Total(capped()) > here) --cap;
  demand.gpus = capped();
  demand.warnings.push_back(
      fmt::format("The job asks for {}, and this machine has {}: it runs {}.", needs, machine_has,
                  Total(demand.gpus) == 0 ? "without accelerators"
                                          : "with at most " + Counted(cap, "GPU") + " a replica"));
}

bool Admission::IsGiant(const Demand& demand) const {
  return demand.vcpus > limits_.vcpus || demand.memory_mb > limits_.memory_mb;
}

bool Admission::Fits(const Demand& demand) const {
  if (Total(demand.gpus) > int(gpus_free().size())) return false;
  if (IsGiant(demand)) return admitted_.empty();
  return vcpus_used() + demand.vcpus <= limits_.vcpus &&
         memory_mb_used() + demand.memory_mb <= limits_.memory_mb;
}

std::string Admission::WhyWaiting(const std::string& job_uid) const {
  for (size_t i = 0; i < queue_.size(); ++i) {
    if (queue_[i].job_uid == job_uid) return WhyWaiting(queue_[i], i);
  }
  for (const Demand& demand : aside_) {
    if (demand.job_uid == job_uid) return demand.never;
  }
  return "";
}

std::string Admission::WhyWaiting(const Demand& demand, size_t ahead) const {
  std::string text = fmt::format("needs {} and {}", Vcpus(demand.vcpus), Memory(demand.memory_mb));
  if (const int gpus = Total(demand.gpus); gpus > 0) text += " and " + Counted(gpus, "GPU");

  std::vector<std::string> shortages;
  if (IsGiant(demand) && !admitted_.empty()) {
    shortages.push_back(fmt::format(
        "that is more than this machine lends at once ({} vCPUs and {}), so it starts when nothing "
        "else runs ({} now)",
        Number(limits_.vcpus), Memory(limits_.memory_mb), Counted(admitted_count(), "job")));
  } else if (!IsGiant(demand)) {
    const std::string oversubscribed =
        limits_.oversubscribe == 1
            ? ""
            : fmt::format(" (the machine's times {})", Number(limits_.oversubscribe));
    const double vcpus_free = std::max(0.0, limits_.vcpus - vcpus_used());
    if (demand.vcpus > vcpus_free) {
      shortages.push_back(fmt::format("{} of {} vCPUs{} are free", Number(vcpus_free),
                                      Number(limits_.vcpus), oversubscribed));
    }
    const int64_t memory_free = std::max<int64_t>(0, limits_.memory_mb - memory_mb_used());
    if (demand.memory_mb > memory_free) {
      shortages.push_back(fmt::format("{} of {}{} are free", Memory(memory_free),
                                      Memory(limits_.memory_mb), oversubscribed));
    }
  }
  if (const size_t free = gpus_free().size(); Total(demand.gpus) > int(free)) {
    shortages.push_back(
        fmt::format("{} of {} are free", free, Counted(int64_t(limits_.gpus.size()), "GPU")));
  }
  for (const std::string& shortage : shortages) text += "; " + shortage;
  if (ahead > 0) {
    text += fmt::format("; {} ahead of it: {}{}",
                        ahead == 1 ? "1 job is" : Counted(ahead, "job") + " are",
                        ahead == 1 ? "" : "first ", queue_.front().name);
  }
  return text;
}

}  // namespace muster::engine
