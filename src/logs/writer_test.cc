#include "logs/writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <filesystem>

#include "base/file.h"

namespace muster::logs {
namespace {

using namespace std::chrono_literals;

class WriterTest : public testing::Test {
 protected:
  ~WriterTest() override { std::filesystem::remove(path_); }

  UniqueFd Open() {
    return UniqueFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  }
  // The records without their times: "O text\n".
  std::string Content() {
    std::string content = *ReadFile(path_);
    std::string result;
    for (size_t at = 0, end = 0; (end = content.find('\n', at)) != std::string::npos;
         at = end + 1) {
      result += content.substr(at + 17, end + 1 - at - 17);
    }
    EXPECT_TRUE(content.empty() || content.back() == '\n');
    return result;
  }

  const std::string path_ =
      (std::filesystem::temp_directory_path() / ("log-" + RandomHex(12))).string();
  FakeClock clock_;
};

TEST_F(WriterTest, CutsLinesWhereverTheBytesWereCut) {
  LogWriter writer(Open(), clock_);
  writer.Write(Stream::kStdout, "one\ntw");
  writer.Write(Stream::kStderr, "err\n");
  writer.Write(Stream::kStdout, "o\n\nthree");
  EXPECT_EQ(Content(), "O one\nE err\nO two\nO \n");
  writer.Finish();
  EXPECT_EQ(Content(), "O one\nE err\nO two\nO \nO three\n");
  EXPECT_EQ(writer.size_bytes(), int64_t(std::filesystem::file_size(path_)));
  EXPECT_EQ(writer.dropped_bytes(), 0);
}

TEST_F(WriterTest, AnUnfinishedLineGoesToTheFileAfterASecond) {
  LogWriter writer(Open(), clock_);
  EXPECT_FALSE(writer.NextTick());
  writer.Write(Stream::kStdout, "Password:");
  ASSERT_TRUE(writer.NextTick());
  writer.Tick();
  EXPECT_EQ(Content(), "");
  clock_.Advance(*writer.NextTick() - clock_.Now());
  writer.Tick();
  EXPECT_EQ(Content(), "o Password:\n");
  EXPECT_FALSE(writer.NextTick());
  writer.Write(Stream::kStdout, " x\n");
  EXPECT_EQ(Content(), "o Password:\nO  x\n");
  writer.Finish();
  EXPECT_EQ(Content(), "o Password:\nO  x\n");
}

TEST_F(WriterTest, ProgressBarsAreCutAtTheirRedrawings) {
  LogWriter writer(Open(), clock_);
  writer.Write(Stream::kStderr, "\r10%\r20%\r30");
  clock_.Advance(1s);
  writer.Tick();
  EXPECT_EQ(Content(), "E \r10%\r20%\n");
  writer.Write(Stream::kStderr, "%\n");
  EXPECT_EQ(Content(), "E \r10%\r20%\nE 30%\n");
}

TEST_F(WriterTest, WindowsLineEndsAreNoRedrawing) {
  LogWriter writer(Open(), clock_);
  writer.Write(Stream::kStdout, "a\r");
  clock_.Advance(1s);
  writer.Tick();
  writer.Write(Stream::kStdout, "\nb\n");
  EXPECT_EQ(Content(), "o a\r\nO \nO b\n");
}

TEST_F(WriterTest, LongLinesAreCutBetweenCharacters) {
  LogWriter writer(Open(), clock_);
  std::string line = "a";
  while (line.size() < 2 * kMaxTextBytes) line += "é";
  writer.Write(Stream::kStdout, line);
  writer.Write(Stream::kStdout, "\n");
  const std::string content = Content();
  EXPECT_EQ(content.substr(0, 2), "o ");
  const size_t first_end = content.find('\n');
  EXPECT_LE(first_end - 2, kMaxTextBytes);
  EXPECT_EQ(static_cast<unsigned char>(content[first_end - 1]), 0xA9u) << "the second byte of é";
  std::string joined;
  for (size_t at = 0, end = 0; (end = content.find('\n', at)) != std::string::npos; at = end + 1) {
    joined += content.substr(at + 2, end - at - 2);
  }
  EXPECT_EQ(joined, line);
}

TEST_F(WriterTest, ReadersSeeWhetherItLives) {
  const UniqueFd reader = Open();
  EXPECT_FALSE(WriterIsAlive(reader.get()));
  {
    LogWriter writer(Open(), clock_);
    EXPECT_TRUE(WriterIsAlive(reader.get()));
  }
  EXPECT_FALSE(WriterIsAlive(reader.get()));
}

// A limit on the size of files stands for a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(WriterTest, CountsWhatIsLostOnAFullDiskAndGoesOn) {
  LogWriter writer(Open(), clock_);
  writer.Write(Stream::kStdout, "first");
  clock_.Advance(1s);
  writer.Tick();
  writer.Write(Stream::kStdout, " line goes on");
  {
    const FileSizeLimit full(uint64_t(writer.size_bytes()) + 30);  // room for a part of a record
    writer.Write(Stream::kStdout, " and is lost\n");               // 25 bytes
    EXPECT_EQ(Content(), "o first\n") << "nothing half written";
    writer.Write(Stream::kStdout, "12345\n");
    EXPECT_EQ(writer.dropped_bytes(), 30);
  }
  writer.Write(Stream::kStdout, "back\n");
  EXPECT_EQ(writer.dropped_bytes(), 30);
  const std::string content = Content();
  EXPECT_THAT(content, testing::StartsWith("o first\nO \nE [muster] 30 bytes of output were lost"));
  EXPECT_THAT(content, testing::EndsWith("\nO back\n"));
}

TEST_F(WriterTest, ReportsALossAtTheEndToo) {
  LogWriter writer(Open(), clock_);
  {
    const FileSizeLimit full(0);
    writer.Write(Stream::kStdout, "lost\n");
  }
  writer.Finish();
  EXPECT_THAT(Content(), testing::StartsWith("E [muster] 4 bytes"));
}

}  // namespace
}  // namespace muster::logs
