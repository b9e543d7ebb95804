// From a command line to a command: help, unknown words and flags, endings.
#include "cli/command.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/completion.h"
#include "cli/flags.h"
#include "cli/testing.h"

namespace muster::cli {
namespace {

using Texts = std::vector<std::string>;

// A registry of two commands that keep what they were given.
class CommandTest : public testing::Test {
 protected:
  CommandTest() {
    CLI::App& show = registry_.Add("things show", "Show a thing", [this](Invocation& invocation) {
      ran_ = invocation.name;
      return Result<int>(7);
    });
    AddText(show, "THING", thing_, "");
    AddText(show, "--color=COLOR", color_, "");
    AddTexts(show, "--tag=TAG", tags_, "");
    AddServerFlags(show, server_);
    CLI::App& start = registry_.AddWithProgram(
        "start", "Start it", [this](Invocation& invocation) -> Result<int> {
          program_ = invocation.rest;
          return Fail(Code::kNotFound, "one\t1.Field: two\t");
        });
    start.add_option("-n,--number", number_, "");
    start.add_flag("--quick", quick_, "");
  }

  int Run(const Texts& arguments) { return registry_.Run(world_.context, arguments); }
  const std::string& err() const { return world_.err.text(); }

  FakeWorld world_;
  Registry registry_;
  std::string ran_, thing_, color_;
  Texts tags_, program_;
  ServerFlags server_;
  int number_ = 0;
  bool quick_ = false;
};

TEST_F(CommandTest, ReachesTheCommandAndItsFlags) {
  EXPECT_EQ(
      Run({"things", "show", "x", "--color", "red", "--tag=a,b", "--tag=--c=d", "--tag", "-e"}), 7);
  EXPECT_EQ(ran_, "muster.things.show");
  EXPECT_EQ(thing_, "x");
  EXPECT_EQ(color_, "red");
  EXPECT_EQ(tags_, (Texts{"a,b", "--c=d", "-e"}));
}

TEST_F(CommandTest, ArgumentsMayLookLikeCommands) {
  EXPECT_EQ(Run({"things", "show", "start"}), 7);
  EXPECT_EQ(thing_, "start");
}

TEST_F(CommandTest, EmptyValuesAreValues) {
  EXPECT_EQ(Run({"things", "show", "--tag=", "--tag", "", "--color=", "x", "--tag=[a,b]"}), 7);
  EXPECT_EQ(tags_, (Texts{"", "", "[a,b]"}));
  EXPECT_EQ(color_, "");
  EXPECT_EQ(thing_, "x");
}

TEST_F(CommandTest, TheLastOfASingleFlagCounts) {
  EXPECT_EQ(Run({"things", "show", "--color=a", "--color=b"}), 7);
  EXPECT_EQ(color_, "b");
}

TEST_F(CommandTest, AiIsAnAlias) { EXPECT_EQ(Run({"ai", "things", "show"}), 7); }

TEST_F(CommandTest, ServerFlagsMayStandInFront) {
  EXPECT_EQ(Run({"--project", "p", "--region=r", "--endpoint", "h:1", "ai", "things", "show", "x"}),
            7);
  EXPECT_EQ(server_.project, "p");
  EXPECT_EQ(server_.region, "r");
  EXPECT_EQ(server_.endpoint, "h:1");
  EXPECT_EQ(thing_, "x");
}

TEST_F(CommandTest, SuggestsFlags) {
  EXPECT_EQ(Run({"things", "show", "--colour=red"}), kExitUsage);
  EXPECT_EQ(err(),
            "ERROR: (muster.things.show) unrecognized arguments: --colour=red (did you mean "
            "'--color'?)\n");
  EXPECT_EQ(ran_, "");
}

TEST_F(CommandTest, SuggestsCommands) {
  EXPECT_EQ(Run({"thing", "show"}), kExitUsage);
  EXPECT_EQ(err(),
            "ERROR: (muster) Invalid choice: 'thing'. Did you mean 'things'?\n"
            "Valid choices are [things, start].\n");
  EXPECT_EQ(Run({"things", "xyzzy"}), kExitUsage);
}

TEST_F(CommandTest, MissingValuesAndWordsAreUsageErrors) {
  EXPECT_EQ(Run({"things", "show", "--color"}), kExitUsage);
  EXPECT_EQ(Run({"start", "--number=x", "--", "a"}), kExitUsage);
  EXPECT_EQ(Run({}), kExitUsage);
  EXPECT_EQ(Run({"things"}), kExitUsage);
  EXPECT_EQ(world_.out.text(), "");
}

TEST_F(CommandTest, ProgramsKeepTheirFlags) {
  Run({"start", "-n", "3", "--quick", "--", "python", "--", "--number=9", "-h"});
  EXPECT_EQ(program_, (Texts{"python", "--", "--number=9", "-h"}));
  EXPECT_EQ(number_, 3);
  Run({"start", "--number", "4", "python", "--quick", "--bad"});
  EXPECT_EQ(program_, (Texts{"python", "--quick", "--bad"}));
  EXPECT_EQ(number_, 4);
  EXPECT_EQ(Run({"start", "--numbr", "4", "python"}), kExitUsage);
}

TEST_F(CommandTest, ErrorsAreReadable) {
  EXPECT_EQ(Run({"start", "--", "x"}), kExitFailed);
  EXPECT_EQ(err(), "ERROR: (muster.start) one\n  1.Field: two\n");
}

TEST_F(CommandTest, HelpIsOutput) {
  for (const Texts& arguments : {Texts{"--help"},
                                 {"help"},
                                 {"things", "-h"},
                                 {"things", "show", "--help"},
                                 {"start", "-h"}}) {
    EXPECT_EQ(Run(arguments), kExitOk);
  }
  EXPECT_EQ(err(), "");
  EXPECT_NE(world_.out.text().find("Usage: muster start [FLAGS] -- PROGRAM"), std::string::npos);
}

TEST(Output, RemembersThatItsReaderHasGone) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  const auto previous = ::signal(SIGPIPE, SIG_IGN);
  Output out = Output::ToDescriptor(ends[1], true);
  Output err = Output::ToString();
  FakeClock clock;
  Context context{out, err, {}, "/", clock};
  EXPECT_EQ(RunMuster(context, {"version"}), kExitOutputClosed);
  EXPECT_EQ(err.text(), "");
  ::close(ends[1]);
  ::signal(SIGPIPE, previous);
}

TEST(Output, ReportsAFullDisk) {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  Output out = Output::ToDescriptor(full, true);
  Output err = Output::ToString();
  FakeClock clock;
  Context context{out, err, {}, "/", clock};
  EXPECT_EQ(RunMuster(context, {"version"}), kExitFailed);
  EXPECT_NE(err.text().find("No space left on device"), std::string::npos);
  ::close(full);
}

TEST(Nearest, IsNear) {
  EXPECT_EQ(Nearest("--regon", {"--region", "--project"}), "--region");
  EXPECT_EQ(Nearest("--disp", {"--display-name", "--project"}), "--display-name");
  EXPECT_EQ(Nearest("zzzzzz", {"--region"}), std::nullopt);
}

// Runs the script in bash, as a shell would on TAB.
std::string Complete(const std::string& script, const Texts& words) {
  TemporaryDirectory directory;
  const std::string file = (directory.path() / "script").string();
  std::string text = script + "\nCOMP_WORDS=(";
  for (const std::string& word : words) text += "'" + word + "' ";
  text += ")\nCOMP_CWORD=" + std::to_string(words.size() - 1) +
          "\nmuster() { echo 4711; }\n_muster\nprintf '%s ' \"${COMPREPLY[@]}\"\n";
  EXPECT_TRUE(WriteFileAtomic(file, text).has_value());
  FILE* shell = ::popen(("bash --norc " + file).c_str(), "r");
  std::string result;
  char piece[4096];
  while (const size_t got = ::fread(piece, 1, sizeof piece, shell)) result.append(piece, got);
  EXPECT_EQ(::pclose(shell), 0);
  return result;
}

TEST(BashCompletion, CompletesInBash) {
  Registry registry;
  AddAllCommands(registry);
  const std::string script = BashCompletion(registry);
  EXPECT_EQ(Complete(script, {"muster", "cust"}), "custom-jobs ");
  EXPECT_EQ(Complete(script, {"muster", "ai", "custom-jobs", "st"}), "stream-logs ");
  EXPECT_EQ(Complete(script, {"muster", "custom-jobs", "create", "--work"}), "--worker-pool-spec ");
  EXPECT_EQ(Complete(script, {"muster", "custom-jobs", "cancel", "47"}), "4711 ");
  EXPECT_EQ(Complete(script, {"muster", "completion", "b"}), "bash ");
  EXPECT_EQ(Complete(script, {"muster", "custom-jobs", "list", "--format", "=", "js"}), "json ");
}

}  // namespace
}  // namespace muster::cli
