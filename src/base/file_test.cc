#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace muster {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  FileTest() { fs::create_directories(directory_); }
  ~FileTest() override { fs::remove_all(directory_); }

  const fs::path directory_ = fs::temp_directory_path() / ("muster-file-" + RandomHex(12));
};

TEST_F(FileTest, WriteReplacesWhole) {
  ASSERT_TRUE(WriteFileAtomic(directory_ / "f", "one"));
  ASSERT_TRUE(WriteFileAtomic(directory_ / "f", "two", 0600));
  EXPECT_EQ(*ReadFile(directory_ / "f"), "two");
  struct stat info{};
  ASSERT_EQ(::stat((directory_ / "f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()), 1);
}

TEST_F(FileTest, ErrorsNameThePath) {
  const auto missing = ReadFile(directory_ / "nothing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_NE(missing.error().message.find("nothing"), std::string::npos);
}

TEST_F(FileTest, RemoveTreeKeepsWhatLinksPointTo) {
  ASSERT_TRUE(MakeDirectories(directory_ / "tree/deep"));
  ASSERT_TRUE(WriteFileAtomic(directory_ / "kept", "x"));
  fs::create_symlink(directory_ / "kept", directory_ / "tree/deep/link");
  fs::permissions(directory_ / "tree/deep", fs::perms::none);
  ASSERT_TRUE(RemoveTree(directory_ / "tree"));
  EXPECT_FALSE(fs::exists(directory_ / "tree"));
  EXPECT_TRUE(fs::exists(directory_ / "kept"));
  EXPECT_TRUE(RemoveTree(directory_ / "tree"));
}

}  // namespace
}  // namespace muster
