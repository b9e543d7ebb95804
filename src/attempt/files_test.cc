#include "attempt/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <muster/v1/agent.pb.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

namespace muster::attempt {
namespace {

namespace fs = std::filesystem;

class FilesTest : public testing::Test {
 protected:
  FilesTest() { fs::create_directories(files_.directory()); }
  ~FilesTest() override { fs::remove_all(files_.directory()); }

  AttemptFiles files_{fs::temp_directory_path() / ("attempt-" + RandomHex(12))};
};

muster::v1::ReportRequest SomeReport() {
  muster::v1::ReportRequest report;
  report.set_token("secret");
  report.mutable_id()->set_job_uid("j");
  report.mutable_exited()->set_cause(muster::v1::Exited::EXITED);
  report.mutable_exited()->set_status(3);
  report.mutable_exited()->set_detail("Traceback: \"é\"\n");
  return report;
}

TEST_F(FilesTest, LaunchComesBackAsWrittenAndIsPrivate) {
  muster::v1::LaunchSpec spec;
  spec.set_token("secret");
  spec.add_argv("python3");
  spec.mutable_id()->set_attempt(2);
  ASSERT_TRUE(files_.WriteLaunch(spec));
  const auto read = files_.ReadLaunch();
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->SerializeAsString(), spec.SerializeAsString());
  struct stat info{};
  ASSERT_EQ(::stat(files_.launch().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(FilesTest, WhatIsNotThereIsNotFound) {
  EXPECT_EQ(files_.ReadLaunch().error().code, Code::kNotFound);
  EXPECT_EQ(files_.ReadAgent().error().code, Code::kNotFound);
  EXPECT_EQ(files_.ReadReport().error().code, Code::kNotFound);
}

TEST_F(FilesTest, DamagedFilesAreDataLoss) {
  for (const char* text : {"", "{", "[]", "{\"pid\":\"x\"}", "\xff\xfe"}) {
    ASSERT_TRUE(WriteFileAtomic(files_.agent(), text));
    ASSERT_TRUE(WriteFileAtomic(files_.report(), text));
    EXPECT_EQ(files_.ReadAgent().error().code, Code::kDataLoss) << text;
    EXPECT_EQ(files_.ReadReport().error().code, Code::kDataLoss) << text;
  }
}

TEST_F(FilesTest, ReportWithAndWithoutReserve) {
  for (const bool reserve : {true, false}) {
    if (reserve) {
      ASSERT_TRUE(files_.ReserveReport());
    }
    EXPECT_EQ(files_.ReadReport().error().code, Code::kNotFound);
    ASSERT_TRUE(files_.WriteReport(SomeReport()));
    const auto report = files_.ReadReport();
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->exited().status(), 3);
    EXPECT_EQ(report->exited().detail(), "Traceback: \"é\"\n");
    EXPECT_EQ(report->token(), "");
    fs::remove(files_.report());
    EXPECT_TRUE(fs::is_empty(files_.directory()));
  }
}

TEST_F(FilesTest, LockIsSeenByOthersAndEndsWithItsHolder) {
  EXPECT_FALSE(files_.IsLocked());
  {
    const auto held = files_.Lock();
    ASSERT_TRUE(held);
    EXPECT_TRUE(files_.IsLocked());
    EXPECT_TRUE(files_.IsLocked()) << "looking must not disturb it";
    EXPECT_EQ(files_.Lock().error().code, Code::kAborted);
  }
  EXPECT_FALSE(files_.IsLocked());
  EXPECT_TRUE(files_.Lock());
}

TEST_F(FilesTest, ProcessesAreToldApart) {
  const auto me = IdentifyProcess(::getpid());
  ASSERT_TRUE(me);
  EXPECT_TRUE(IsAlive(*me));
  ASSERT_TRUE(files_.WriteAgent(*me));
  EXPECT_EQ(*files_.ReadAgent(), *me);

  ProcessIdentity earlier = *me;
  --earlier.start_time_ticks;
  EXPECT_FALSE(IsAlive(earlier));
  ProcessIdentity before_restart = *me;
  before_restart.boot_id = "other";
  EXPECT_FALSE(IsAlive(before_restart));

  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, id_t(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(IdentifyProcess(child).error().code, Code::kNotFound) << "a zombie is no process";
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace muster::attempt
