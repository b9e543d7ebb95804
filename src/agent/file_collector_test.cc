#include "agent/file_collector.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/file.h"
#include "base/time.h"

namespace muster::agent {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class FileCollectorTest : public testing::Test {
 protected:
  FileCollectorTest() { fs::create_directories(storage_); }
  ~FileCollectorTest() override { fs::remove_all(root_); }

  fs::path Output(size_t number) const {
    return storage_ / ("output" + std::to_string(number) + ".log");
  }
  void Put(size_t number, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomic(Output(number), text));
  }
  void Poll() {
    while (collector_.Poll()) {
    }
  }
  std::string Log() const { return ReadFile(root_ / "log").value_or(""); }
  size_t Count(const std::string& text) const {
    const std::string log = Log();
    size_t count = 0;
    for (size_t at = 0; (at = log.find(text, at)) != std::string::npos; ++at) ++count;
    return count;
  }

  const fs::path root_ = fs::temp_directory_path() / ("muster-collector-" + RandomHex(12));
  const fs::path storage_ = root_ / "log-storage";
  const SystemClock clock_;
  logs::LogWriter log_{[this] {
                         fs::create_directories(root_);
                         return UniqueFd(::open((root_ / "log").c_str(),
                                                O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
                       }(),
                       clock_};
  FileCollector collector_{storage_, log_};
};

TEST_F(FileCollectorTest, RotatedFilesMakeRoomForTheNext) {
  // As a program that keeps two files and deletes older ones.
  const size_t count = 3 * kCollectedFilesMax;
  for (size_t i = 0; i < count; ++i) {
    Put(i, "line " + std::to_string(i) + " of the last\nend " + std::to_string(i) + " ");
    Poll();
    if (i >= 2) fs::remove(Output(i - 2));
  }
  collector_.Finish();
  for (size_t i = 0; i < count; ++i) {
    EXPECT_THAT(Log(), HasSubstr("line " + std::to_string(i) + " of the last\n"));
    EXPECT_THAT(Log(), HasSubstr("end " + std::to_string(i) + " \n"));
  }
  EXPECT_THAT(Log(), Not(HasSubstr("muster:")));
}

TEST_F(FileCollectorTest, TooManyAreSaidOnceAndTakenWhenThereIsRoom) {
  const size_t count = kCollectedFilesMax + 3;
  for (size_t i = 0; i < count; ++i) Put(i, "text of a file\n");
  Poll();
  Poll();
  EXPECT_EQ(Count("text of a file"), kCollectedFilesMax);
  EXPECT_EQ(Count("muster: more than 64 files"), 1u);
  for (size_t i = 0; i < count; ++i) fs::remove(Output(i));
  for (size_t i = 0; i < 3; ++i) Put(count + i, "text of another\n");
  Poll();
  EXPECT_EQ(Count("text of another"), 3u);
}

}  // namespace
}  // namespace muster::agent
