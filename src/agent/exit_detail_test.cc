#include "agent/exit_detail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <signal.h>

#include "base/utf8.h"

namespace muster::agent {
namespace {

int Exited(int code) { return code << 8; }
int Killed(int signal) { return signal; }

TEST(ExitDetail, StatusIsTheShells) {
  EXPECT_EQ(ExitStatus(Exited(3)), 3);
  EXPECT_EQ(ExitStatus(Killed(SIGKILL)), 137);
  EXPECT_EQ(ExitStatus(Killed(SIGSEGV) | 0x80), 139) << "with a core dump";
}

TEST(ExitDetail, TakesTheLastTraceback) {
  const std::string text =
      "noise\nTraceback (most recent call last):\n  File \"a\"\nKeyError: 1\n\nDuring handling of "
      "the above exception, another exception occurred:\n\nTraceback (most recent call last):\n"
      "  File \"b\", line 2\n    f()\nValueError: bad\n";
  EXPECT_EQ(ExitDetail(Exited(1), text),
            "Traceback (most recent call last):\n  File \"b\", line 2\n    f()\nValueError: bad");
}

TEST(ExitDetail, ALongTracebackKeepsItsException) {
  std::string text = "Traceback (most recent call last):\n";
  for (int i = 0; i < 200; ++i) text += "  File \"deep.py\", line 7, in f\n";
  text += "RecursionError: é\n";
  const std::string with_noise = text + std::string(5000, 'n');
  for (const std::string& given : {text, with_noise}) {
    const std::string detail = ExitDetail(Exited(1), given);
    EXPECT_LE(detail.size(), kDetailBytesMax);
    EXPECT_THAT(detail, testing::StartsWith("Traceback (most recent call last):\n  …\n  File"));
    EXPECT_THAT(detail, testing::EndsWith("in f\nRecursionError: é"));
  }
}

TEST(ExitDetail, NoiseAfterATracebackDoesNotPushItOut) {
  const std::string traceback = "Traceback (most recent call last):\n  File \"a\"\nKeyError: 1";
  const std::string detail = ExitDetail(Exited(1), traceback + "\n" + std::string(9000, 'n'));
  EXPECT_THAT(detail, testing::StartsWith(traceback));
  EXPECT_LE(detail.size(), kDetailBytesMax);
}

TEST(ExitDetail, OtherwiseTheLastLines) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "line " + std::to_string(i) + "\n";
  const std::string detail = ExitDetail(Exited(2), text);
  EXPECT_THAT(detail, testing::StartsWith("line 30\n"));
  EXPECT_THAT(detail, testing::EndsWith("line 49"));
  EXPECT_EQ(ExitDetail(Exited(2), "one"), "one");
  EXPECT_EQ(ExitDetail(Exited(2), ""), "");
}

TEST(ExitDetail, NamesTheSignal) {
  EXPECT_EQ(ExitDetail(Killed(SIGSEGV), ""), "Ended by signal 11 (SIGSEGV: Segmentation fault).");
  EXPECT_EQ(ExitDetail(Killed(SIGABRT), "free(): invalid\n"),
            "Ended by signal 6 (SIGABRT: Aborted).\nfree(): invalid");
}

RC_GTEST_PROP(ExitDetail, AlwaysFits, (const std::string& some)) {
  std::string text;
  const int parts = *rc::gen::inRange(0, 40);
  for (int i = 0; i < parts; ++i) {
    text += *rc::gen::element<std::string>("Traceback (most recent call last):\n", "  frame\n",
                                           "é€", "\xff", std::string(700, 'x'), "\n", some);
  }
  const int status = *rc::gen::element(Exited(1), Killed(9), Killed(64));
  const std::string detail = ExitDetail(status, text);
  RC_ASSERT(detail.size() <= kDetailBytesMax);
  RC_ASSERT(ToValidUtf8(detail) == detail);
  RC_ASSERT(FitDetail(text).size() <= kDetailBytesMax);
}

TEST(OutOfMemoryDetail, TellsTheLimitAndWhatToDo) {
  const std::string detail = OutOfMemoryDetail(int64_t(512) << 20);
  EXPECT_NE(detail.find("gives it 512 MiB: use a larger machine type"), std::string::npos);
  EXPECT_NE(detail.find("memory_limits: off"), std::string::npos);
}

}  // namespace
}  // namespace muster::agent
