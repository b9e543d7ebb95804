#include "engine/local/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "base/file.h"
#include "engine/local/cgroups.h"
#include "engine/local/leak_check.h"

namespace muster::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Directory {
 public:
  Directory() : path_(fs::temp_directory_path() / ("muster-machine-" + RandomHex(12))) {
    fs::create_directories(path_);
  }
  ~Directory() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

constexpr char kSmi[] =
    "GPU 0: NVIDIA H200 (UUID: GPU-11111111-aaaa-bbbb-cccc-000000000000)\n"
    "  MIG 1g.18gb     Device  0: (UUID: MIG-5c1a)\n"
    "GPU 1: Tesla T4 (rev 2) (UUID: GPU-22222222-aaaa-bbbb-cccc-000000000000)\n";

TEST(Gpus, OfNvidiaSmi) {
  EXPECT_THAT(ParseNvidiaSmi(kSmi),
              ElementsAre(Gpu{0, "NVIDIA H200", "GPU-11111111-aaaa-bbbb-cccc-000000000000"},
                          Gpu{1, "Tesla T4 (rev 2)", "GPU-22222222-aaaa-bbbb-cccc-000000000000"}));
  EXPECT_THAT(ParseNvidiaSmi("No devices were found\n"), IsEmpty());
}

TEST(Gpus, OfTheDriversFiles) {
  const Directory directory;
  for (const char* bus : {"0000:3b:00.0", "0000:5e:00.0"}) {
    fs::create_directories(directory / "gpus" / bus);
    std::ofstream(directory / "gpus" / bus / "information") << "Model: \t\t NVIDIA L4\nIRQ: 1\n";
  }
  fs::create_directories(directory / "dev");
  for (const char* name : {"nvidia0", "nvidiactl", "nvidia-uvm", "null"}) {
    std::ofstream(directory / "dev" / name) << "";
  }
  // The driver knows two; the devices of one are here.
  EXPECT_THAT(GpusOfDevices(directory / "dev", directory / "gpus"),
              ElementsAre(Gpu{0, "NVIDIA L4", ""}));
  EXPECT_THAT(GpusOfDevices(directory / "none", directory / "none"), IsEmpty());
}

TEST(Gpus, OnlyThoseThatMusterdItselfMaySee) {
  const std::vector<Gpu> gpus = ParseNvidiaSmi(kSmi);
  EXPECT_THAT(RestrictGpus(gpus, std::nullopt), SizeIs(2));
  EXPECT_THAT(RestrictGpus(gpus, "1"), ElementsAre(Field(&Gpu::index, 1)));
  EXPECT_THAT(RestrictGpus(gpus, "GPU-2222, 0, 0"),
              ElementsAre(Field(&Gpu::index, 1), Field(&Gpu::index, 0)));
  EXPECT_THAT(RestrictGpus(gpus, "0,-1,1"), ElementsAre(Field(&Gpu::index, 0)));
  EXPECT_THAT(RestrictGpus(gpus, ""), IsEmpty());
}

TEST(Machine, IsFoundAndOverridden) {
  const Machine found = FindMachine({.cpus = {}, .memory_mb = {}, .gpus = 0, .find_gpus = {}});
  EXPECT_GT(found.cores, 0);
  EXPECT_GT(found.memory_mb, 100);
  const Machine said = FindMachine({.cpus = 3.5, .memory_mb = 77, .gpus = 2, .find_gpus = {}});
  EXPECT_EQ(said.cores, 3.5);
  EXPECT_EQ(said.memory_mb, 77);
  EXPECT_THAT(said.gpus, SizeIs(2));
}

TEST(Machine, CpuQuota) {
  EXPECT_EQ(ParseCpuMax("150000 100000\n"), 1.5);
  EXPECT_EQ(ParseCpuMax("max 100000\n"), std::nullopt);
  EXPECT_EQ(ParseCpuMax(""), std::nullopt);
}

TEST(CommandOutput, IsReadAndBounded) {
  EXPECT_EQ(CommandOutput({"echo", "a b"}, std::chrono::seconds(10)).value_or("?"), "a b\n");
  EXPECT_EQ(CommandOutput({"no-such-program"}, std::chrono::seconds(10)).error().code,
            Code::kNotFound);
  EXPECT_FALSE(CommandOutput({"false"}, std::chrono::seconds(10)));
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(CommandOutput({"sleep", "600"}, std::chrono::milliseconds(20)).error().code,
            Code::kDeadlineExceeded);
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(60));
}

TEST(Cgroups, OfAHybridMachine) {
  const OwnCgroups own = ParseOwnCgroups(
      "30 20 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
      "31 30 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
      "32 30 0:27 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
      "33 30 0:28 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n",
      "4:memory:/a/b\n1:cpu,cpuacct:/x\n0::/\n");
  EXPECT_EQ(own.v2, "/sys/fs/cgroup/unified");
  EXPECT_EQ(own.v1_memory, "/sys/fs/cgroup/memory/a/b");
}

TEST(Cgroups, OfAPureV2Machine) {
  const OwnCgroups own =
      ParseOwnCgroups("30 20 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n",
                      "0::/user.slice/user-1000.slice/user@1000.service/app.slice/m.scope\n");
  EXPECT_EQ(own.v2,
            "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/m.scope");
  EXPECT_EQ(own.v1_memory, "");
}

TEST(Cgroups, OfAContainerThatSeesAPart) {
  constexpr char kMounts[] = "30 20 0:25 /docker/c1 /sys/fs/cgroup\\040x rw - cgroup2 cgroup rw\n";
  EXPECT_EQ(ParseOwnCgroups(kMounts, "0::/docker/c1/sub\n").v2, "/sys/fs/cgroup x/sub");
  EXPECT_EQ(ParseOwnCgroups(kMounts, "0::/docker/c1\n").v2, "/sys/fs/cgroup x");
  EXPECT_EQ(ParseOwnCgroups(kMounts, "0::/docker/c10\n").v2, "");
  EXPECT_EQ(ParseOwnCgroups("", "").v2, "");
}

TEST(LeakCheck, FindsMountsBelowADirectory) {
  EXPECT_THAT(MountsBelow("1 0 0:1 / / rw - ext4 a rw\n"
                          "2 1 0:2 / /d/jobs/7 rw - tmpfs b rw\n"
                          "3 1 0:3 / /d/jobs/7/x/gcs rw - tmpfs c rw\n"
                          "4 1 0:4 / /d/jobs/77 rw - tmpfs d rw\n",
                          "/d/jobs/7"),
              ElementsAre("/d/jobs/7", "/d/jobs/7/x/gcs"));
}

}  // namespace
}  // namespace muster::engine
