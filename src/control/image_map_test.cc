#include "control/image_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"

namespace muster::control {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

ImageMapping Mapping(std::string pattern, std::string python = {}) {
  return {.pattern = std::move(pattern),
          .python = std::move(python),
          .env = {},
          .entrypoint = {},
          .cmd = {},
          .working_directory = {}};
}

class ImageMapTest : public testing::Test {
 protected:
  ImageMapTest() {
    fs::create_directories(venv_ / "bin");
    EXPECT_TRUE(WriteFileAtomic(venv_ / "bin/python3", "#!/bin/sh\n", 0755));
    EXPECT_TRUE(WriteFileAtomic(venv_ / "pyvenv.cfg", ""));
  }
  ~ImageMapTest() override { fs::remove_all(venv_); }

  const fs::path venv_ = fs::temp_directory_path() / ("muster-venv-" + RandomHex(12));
};

TEST_F(ImageMapTest, PrebuiltImagesMeanThePathsFirstPython) {
  const ImageMap images({}, "/nowhere:" + (venv_ / "bin").string() + ":/usr/bin");
  for (const char* uri :
       {"us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-17.py310:latest",
        "gcr.io/cloud-aiplatform/training/pytorch-gpu.1-9:latest", "muster.local/host"}) {
    const auto image = images.Resolve(uri);
    ASSERT_TRUE(image) << uri;
    EXPECT_EQ(image->interpreter, (venv_ / "bin/python3").string());
    EXPECT_EQ(image->env[1], std::make_pair(std::string("VIRTUAL_ENV"), venv_.string()));
  }
}

TEST_F(ImageMapTest, FirstMatchWinsAndItsBinComesFirst) {
  const ImageMap images({Mapping("gcr.io/p/*", venv_), Mapping("*", "/nonexistent")}, "/usr/bin");
  const auto image = images.Resolve("gcr.io/p/deep/image:tag");
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->env[0].second, (venv_ / "bin").string() + ":/usr/bin");
  const auto broken = images.Resolve("other");
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message, HasSubstr("/nonexistent is not an executable python3"));
  EXPECT_THAT(images.Problems(), ElementsAre(HasSubstr("/nonexistent")));
}

TEST_F(ImageMapTest, UnknownImageShowsTheLineToAdd) {
  const auto image = ImageMap({}, "/usr/bin").Resolve("gcr.io/p/i");
  ASSERT_FALSE(image);
  EXPECT_THAT(image.error().message,
              HasSubstr("- {pattern: \"gcr.io/p/i\", python: /path/to/venv}"));
}

job::PoolPlan Container(std::vector<std::string> command, std::vector<std::string> args) {
  job::PoolPlan pool;
  pool.task = job::ContainerTask{"i", std::move(command), std::move(args)};
  return pool;
}

TEST(ProgramOf, FollowsKubernetesRules) {
  LocalImage image;
  image.entrypoint = {"entry"};
  image.cmd = {"default"};
  EXPECT_THAT(*ProgramOf(Container({}, {}), image), ElementsAre("entry", "default"));
  EXPECT_THAT(*ProgramOf(Container({}, {"a"}), image), ElementsAre("entry", "a"));
  EXPECT_THAT(*ProgramOf(Container({"c"}, {}), image), ElementsAre("c"));
  EXPECT_THAT(*ProgramOf(Container({"c"}, {"a"}), image), ElementsAre("c", "a"));
}

TEST(ProgramOf, NothingToRunNamesTheField) {
  const auto program = ProgramOf(Container({}, {"--only-args"}), LocalImage{});
  ASSERT_FALSE(program);
  EXPECT_THAT(program.error().message, HasSubstr("worker_pool_specs[0].container_spec.command"));
}

TEST(ProgramOf, PythonPackagesRunTheirModule) {
  job::PoolPlan pool;
  pool.task = job::PythonPackageTask{"i", {"gs://b/p.tar.gz"}, "trainer.task", {"--x"}};
  EXPECT_THAT(*ProgramOf(pool, LocalImage{}), ElementsAre("python3", "-m", "trainer.task", "--x"));
}

}  // namespace
}  // namespace muster::control
