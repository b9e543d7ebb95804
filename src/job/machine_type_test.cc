#include "job/machine_type.h"

#include <gmock/gmock.h>
#include <google/cloud/aiplatform/v1/accelerator_type.pb.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace muster::job {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(MachineCatalogTest, FiguresFollowTheContract) {
  const MachineCatalog catalog = MachineCatalog::Builtin();
  const MachineType expected[] = {
      {"n1-standard-4", 4, 15360, 10'000, 0},
      {"n1-standard-8", 8, 30720, 16'000, 0},
      {"n1-standard-16", 16, 61440, 32'000, 0},
      {"n1-highmem-2", 2, 13312, 10'000, 0},
      {"n1-highcpu-16", 16, 14745, 32'000, 0},
      {"e2-standard-4", 4, 16384, 8'000, 0},
      {"e2-highmem-16", 16, 131072, 16'000, 0},
      {"e2-highcpu-16", 16, 16384, 16'000, 0},
      {"n2-standard-128", 128, 524288, 32'000, 0},
      {"c2-standard-60", 60, 245760, 32'000, 0},
      {"n4-standard-80", 80, 327680, 50'000, 0},
      {"m1-ultramem-40", 40, 984064, 32'000, 0},
      {"a2-highgpu-2g", 24, 174080, 32'000, 2, "NVIDIA_TESLA_A100"},
      {"a2-megagpu-16g", 96, 1392640, 100'000, 16, "NVIDIA_TESLA_A100"},
      {"a2-ultragpu-1g", 12, 174080, 24'000, 1, "NVIDIA_A100_80GB"},
      {"a3-highgpu-8g", 208, 1916928, 1'000'000, 8, "NVIDIA_H100_80GB"},
      {"a4-highgpu-8g", 224, 4063232, 3'600'000, 8, "NVIDIA_B200"},
      {"g2-standard-24", 24, 98304, 32'000, 2, "NVIDIA_L4"},
      {"g4-standard-48", 48, 184320, 50'000, 1, "NVIDIA_RTX_PRO_6000"},
  };
  for (const MachineType& type : expected) {
    const MachineType* found = catalog.Find(type.name);
    ASSERT_NE(found, nullptr) << type.name;
    EXPECT_EQ(*found, type) << type.name << " " << found->memory_mb << " " << found->egress_mbps;
  }
}

TEST(MachineCatalogTest, HasEveryNameOfTheContract) {
  const MachineCatalog catalog = MachineCatalog::Builtin();
  const std::pair<std::string, std::vector<int>> series[] = {
      {"e2-standard-{}", {4, 8, 16, 32}},
      {"e2-highmem-{}", {2, 4, 8, 16}},
      {"e2-highcpu-{}", {16, 32}},
      {"n1-standard-{}", {4, 8, 16, 32, 64, 96}},
      {"n1-highmem-{}", {2, 4, 8, 16, 32, 64, 96}},
      {"n1-highcpu-{}", {16, 32, 64, 96}},
      {"c2-standard-{}", {4, 8, 16, 30, 60}},
      {"a2-highgpu-{}g", {1, 2, 4, 8}},
      {"a2-megagpu-{}g", {16}},
      {"a2-ultragpu-{}g", {1, 2, 4, 8}},
      {"g2-standard-{}", {4, 8, 12, 16, 24, 32, 48, 96}},
  };
  for (const auto& [pattern, sizes] : series) {
    for (const int size : sizes) {
      std::string name = pattern;
      name.replace(name.find("{}"), 2, std::to_string(size));
      EXPECT_NE(catalog.Find(name), nullptr) << name;
    }
  }
}

TEST(MachineCatalogTest, EveryTypeMakesSense) {
  const MachineCatalog catalog = MachineCatalog::Builtin();
  EXPECT_TRUE(std::ranges::is_sorted(catalog.types(), {}, &MachineType::name));
  for (const MachineType& type : catalog.types()) {
    EXPECT_EQ(catalog.Find(type.name), &type) << "twice: " << type.name;
    EXPECT_GT(type.vcpus, 0) << type.name;
    EXPECT_GT(type.memory_mb, 0) << type.name;
    EXPECT_GE(type.egress_mbps, 4'000) << type.name;
    EXPECT_EQ(type.accelerator_count > 0, !type.accelerator_type.empty()) << type.name;
    google::cloud::aiplatform::v1::AcceleratorType accelerator{};
    EXPECT_TRUE(
        type.accelerator_type.empty() ||
        google::cloud::aiplatform::v1::AcceleratorType_Parse(type.accelerator_type, &accelerator))
        << type.name;
  }
}

TEST(MachineCatalogTest, SitesAddAndReplaceTypes) {
  MachineCatalog catalog = MachineCatalog::Builtin();
  const size_t builtin = catalog.types().size();
  catalog.Add({.name = "lab-box", .vcpus = 6, .memory_mb = 32768});
  catalog.Add({.name = "n1-standard-4", .vcpus = 4, .memory_mb = 1});
  EXPECT_EQ(catalog.types().size(), builtin + 1);
  ASSERT_NE(catalog.Find("lab-box"), nullptr);
  EXPECT_EQ(catalog.Find("n1-standard-4")->memory_mb, 1);
  EXPECT_EQ(catalog.Find("lab-bo"), nullptr);
  EXPECT_EQ(catalog.Find(""), nullptr);
  EXPECT_THAT(catalog.Similar("lab_box", 3), ElementsAre("lab-box"));
}

TEST(MachineCatalogTest, SuggestsWhatWasMeant) {
  const MachineCatalog catalog = MachineCatalog::Builtin();
  EXPECT_THAT(catalog.Similar("n1-standart-8", 1), ElementsAre("n1-standard-8"));
  EXPECT_THAT(catalog.Similar("n1-standard-2", 3), Contains("n1-standard-4"));
  EXPECT_THAT(catalog.Similar("N1-STANDARD-4", 1), ElementsAre("n1-standard-4"));
  EXPECT_THAT(catalog.Similar("a2-highgpu", 4),
              ElementsAre("a2-highgpu-1g", "a2-highgpu-2g", "a2-highgpu-4g", "a2-highgpu-8g"));
  EXPECT_THAT(catalog.Similar("n1-stnadard-16", 1), ElementsAre("n1-standard-16"));
  EXPECT_THAT(catalog.Similar("", 3), IsEmpty());
  EXPECT_THAT(catalog.Similar("a-completely-different-thing", 3), IsEmpty());
  EXPECT_THAT(catalog.Similar(std::string(1'000'000, 'n'), 3), IsEmpty());
}

}  // namespace
}  // namespace muster::job
