// Most families are regular: memory follows from the vCPUs, egress from a few steps. Those are
// rules; the accelerator-optimized machines are a table.
#include "job/machine_type.h"

#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <tuple>
#include <utility>

namespace muster::job {
namespace {

int64_t MegabytesOf(double gigabytes) { return static_cast<int64_t>(gigabytes * 1024); }

// Contract §5, for n1 and n2; c2's published figures are the same.
int64_t CommonEgressMbps(int vcpus) { return vcpus < 8 ? 10'000 : vcpus < 16 ? 16'000 : 32'000; }

int64_t E2EgressMbps(int vcpus) { return vcpus < 4 ? 4'000 : vcpus < 8 ? 8'000 : 16'000; }

int64_t N4EgressMbps(int vcpus) {
  if (vcpus < 8) return 10'000;
  if (vcpus < 16) return 16'000;
  if (vcpus < 32) return 20'000;
  if (vcpus < 48) return 28'000;
  if (vcpus < 64) return 37'000;
  return vcpus < 80 ? 45'000 : 50'000;
}

// One line of machines: "n1-standard-" × {4, 8, …}.
struct Series {
  std::string_view prefix;
  double gigabytes_per_vcpu;
  int64_t (*egress_mbps)(int vcpus);
  std::initializer_list<int> vcpus;
};

void AddSeries(std::vector<MachineType>& types, const Series& series) {
  for (const int vcpus : series.vcpus) {
    types.push_back({.name = fmt::format("{}{}", series.prefix, vcpus),
                     .vcpus = static_cast<double>(vcpus),
                     .memory_mb = MegabytesOf(series.gigabytes_per_vcpu * vcpus),
                     .egress_mbps = series.egress_mbps(vcpus)});
  }
}

void AddGeneralPurpose(std::vector<MachineType>& types) {
  AddSeries(types, {"n1-standard-", 3.75, CommonEgressMbps, {4, 8, 16, 32, 64, 96}});
  AddSeries(types, {"n1-highmem-", 6.5, CommonEgressMbps, {2, 4, 8, 16, 32, 64, 96}});
  AddSeries(types, {"n1-highcpu-", 0.9, CommonEgressMbps, {16, 32, 64, 96}});
  AddSeries(types, {"e2-standard-", 4, E2EgressMbps, {4, 8, 16, 32}});
  AddSeries(types, {"e2-highmem-", 8, E2EgressMbps, {2, 4, 8, 16}});
  AddSeries(types, {"e2-highcpu-", 1, E2EgressMbps, {16, 32}});
  AddSeries(types, {"n2-standard-", 4, CommonEgressMbps, {4, 8, 16, 32, 48, 64, 80, 96, 128}});
  AddSeries(types, {"n2-highmem-", 8, CommonEgressMbps, {2, 4, 8, 16, 32, 48, 64, 80, 96, 128}});
  AddSeries(types, {"n2-highcpu-", 1, CommonEgressMbps, {16, 32, 48, 64, 80, 96}});
  AddSeries(types, {"n4-standard-", 4, N4EgressMbps, {2, 4, 8, 16, 32, 48, 64, 80}});
  AddSeries(types, {"n4-highmem-", 8, N4EgressMbps, {2, 4, 8, 16, 32, 48, 64, 80}});
  AddSeries(types, {"n4-highcpu-", 2, N4EgressMbps, {2, 4, 8, 16, 32, 48, 64, 80}});
  AddSeries(types, {"c2-standard-", 4, CommonEgressMbps, {4, 8, 16, 30, 60}});
}

// Memory-optimized, and those that come with their accelerators. Gigabytes, Gbit/s.
struct Special {
  std::string_view name;
  int vcpus;
  double gigabytes;
  int egress_gbps;
  int accelerators = 0;
  std::string_view accelerator_type = {};
};

constexpr Special kSpecials[] = {
    {"m1-ultramem-40", 40, 961, 32},
    {"m1-ultramem-80", 80, 1922, 32},
    {"m1-ultramem-160", 160, 3844, 32},
    {"m1-megamem-96", 96, 1433.6, 32},

    {"a2-highgpu-1g", 12, 85, 24, 1, "NVIDIA_TESLA_A100"},
    {"a2-highgpu-2g", 24, 170, 32, 2, "NVIDIA_TESLA_A100"},
    {"a2-highgpu-4g", 48, 340, 50, 4, "NVIDIA_TESLA_A100"},
    {"a2-highgpu-8g", 96, 680, 100, 8, "NVIDIA_TESLA_A100"},
    {"a2-megagpu-16g", 96, 1360, 100, 16, "NVIDIA_TESLA_A100"},
    {"a2-ultragpu-1g", 12, 170, 24, 1, "NVIDIA_A100_80GB"},
    {"a2-ultragpu-2g", 24, 340, 32, 2, "NVIDIA_A100_80GB"},
    {"a2-ultragpu-4g", 48, 680, 50, 4, "NVIDIA_A100_80GB"},
    {"a2-ultragpu-8g", 96, 1360, 100, 8, "NVIDIA_A100_80GB"},

    {"a3-highgpu-1g", 26, 234, 25, 1, "NVIDIA_H100_80GB"},
    {"a3-highgpu-2g", 52, 468, 50, 2, "NVIDIA_H100_80GB"},
    {"a3-highgpu-4g", 104, 936, 100, 4, "NVIDIA_H100_80GB"},
    {"a3-highgpu-8g", 208, 1872, 1000, 8, "NVIDIA_H100_80GB"},
    {"a3-edgegpu-8g", 208, 1872, 800, 8, "NVIDIA_H100_80GB"},
    {"a3-megagpu-8g", 208, 1872, 1800, 8, "NVIDIA_H100_MEGA_80GB"},
    {"a3-ultragpu-8g", 224, 2952, 3600, 8, "NVIDIA_H200_141GB"},

    {"a4-highgpu-8g", 224, 3968, 3600, 8, "NVIDIA_B200"},
    {"a4x-highgpu-4g", 140, 884, 2000, 4, "NVIDIA_GB200"},

    {"g2-standard-4", 4, 16, 10, 1, "NVIDIA_L4"},
    {"g2-standard-8", 8, 32, 16, 1, "NVIDIA_L4"},
    {"g2-standard-12", 12, 48, 16, 1, "NVIDIA_L4"},
    {"g2-standard-16", 16, 64, 32, 1, "NVIDIA_L4"},
    {"g2-standard-24", 24, 96, 32, 2, "NVIDIA_L4"},
    {"g2-standard-32", 32, 128, 32, 1, "NVIDIA_L4"},
    {"g2-standard-48", 48, 192, 50, 4, "NVIDIA_L4"},
    {"g2-standard-96", 96, 384, 100, 8, "NVIDIA_L4"},

    {"g4-standard-48", 48, 180, 50, 1, "NVIDIA_RTX_PRO_6000"},
    {"g4-standard-96", 96, 360, 100, 2, "NVIDIA_RTX_PRO_6000"},
    {"g4-standard-192", 192, 720, 200, 4, "NVIDIA_RTX_PRO_6000"},
    {"g4-standard-384", 384, 1440, 400, 8, "NVIDIA_RTX_PRO_6000"},

    // TPU hosts. A cloud-tpu's chips are in the spec's accelerator_type and count.
    {"cloud-tpu", 96, 335, 32},
    {"ct4p-hightpu-4t", 240, 407, 100, 4, "TPU_V4_POD"},
    {"ct5lp-hightpu-1t", 24, 48, 32, 1, "TPU_V5_LITEPOD"},
    {"ct5lp-hightpu-4t", 112, 192, 100, 4, "TPU_V5_LITEPOD"},
    {"ct5lp-hightpu-8t", 224, 384, 100, 8, "TPU_V5_LITEPOD"},
};

bool NameIsLess(const MachineType& type, std::string_view name) { return type.name < name; }

// Letters to insert, delete, replace or swap with their neighbour to get from `a` to `b`.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

MachineCatalog MachineCatalog::Builtin() {
  MachineCatalog catalog;
  AddGeneralPurpose(catalog.types_);
  for (const Special& special : kSpecials) {
    catalog.types_.push_back({.name = std::string(special.name),
                              .vcpus = static_cast<double>(special.vcpus),
                              .memory_mb = MegabytesOf(special.gigabytes),
                              .egress_mbps = special.egress_gbps * int64_t{1000},
                              .accelerator_count = special.accelerators,
                              .accelerator_type = std::string(special.accelerator_type)});
  }
  std::ranges::sort(catalog.types_, {}, &MachineType::name);
  return catalog;
}

void MachineCatalog::Add(MachineType type) {
  const auto at = std::lower_bound(types_.begin(), types_.end(), type.name, NameIsLess);
  if (at != types_.end() && at->name == type.name) {
    *at = std::move(type);
  } else {
    types_.insert(at, std::move(type));
  }
}

const MachineType* MachineCatalog::Find(std::string_view name) const {
  const auto at = std::lower_bound(types_.begin(), types_.end(), name, NameIsLess);
  return at != types_.end() && at->name == name ? &*at : nullptr;
}

std::vector<std::string> MachineCatalog::Similar(std::string_view name, size_t limit) const {
  constexpr size_t kLongestName = 64;  // what is longer is no typing error
  if (name.empty() || name.size() > kLongestName) return {};
  std::string wanted(name);
  std::ranges::transform(wanted, wanted.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });

  // Few edits first; a name that `wanted` begins ("a2-highgpu") counts as one edit.
  std::vector<std::tuple<size_t, double, std::string_view>> found;
  for (const MachineType& type : types_) {
    const bool begins = type.name.starts_with(wanted) && wanted.size() >= 2;
    const size_t edits = begins ? 1 : EditDistance(wanted, type.name);
    if (edits <= std::max<size_t>(1, wanted.size() / 4)) {
      found.emplace_back(edits, type.vcpus, type.name);
    }
  }
  std::ranges::sort(found);
  std::vector<std::string> names;
  for (const auto& [edits, vcpus, known] : found) {
    if (names.size() == limit) break;
    names.emplace_back(known);
  }
  return names;
}

}  // namespace muster::job
