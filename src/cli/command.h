// The commands of `muster`: a registry that every command group adds its own to, and what leads
// from a command line to one of them.
//
// A new group is one file with `void Add…Commands(Registry&)`, called in app.cc. Flags are parsed
// by CLI11, one CLI::App for each command; which command it is, help for groups, and errors in
// gcloud's style are done here.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/context.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

namespace muster::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // the command failed, or the job it waited for
inline constexpr int kExitUsage = 2;
inline constexpr int kExitCancelled = 3;      // the job it waited for was cancelled
inline constexpr int kExitInterrupted = 130;  // Ctrl-C
inline constexpr int kExitOutputClosed = 141;

class Registry;

struct Invocation {
  Context& context;
  const Registry& registry;
  std::string name;               // "muster.custom-jobs.create", for messages
  std::vector<std::string> rest;  // the program, of a command that takes one

  // Says what is wrong with the command line. Returns kExitUsage.
  int Usage(const Error& error);
  // Says what failed. Returns kExitFailed.
  int Failure(const Error& error);
};

// What a command does; an Error is reported as Failure() does.
using RunCommand = std::function<Result<int>(Invocation&)>;

struct Command {
  std::vector<std::string> words;  // {"custom-jobs", "create"}
  std::string summary;
  bool takes_program = false;  // `-- PROGRAM ARGS`, or the first word that is no flag and all after
  std::unique_ptr<CLI::App> app;
  RunCommand run;
};

class Registry {
 public:
  Registry();
  ~Registry();

  // `path`: "custom-jobs create". The flags to add to the app returned must write to something that
  // `run` owns.
  CLI::App& Add(std::string_view path, std::string summary, RunCommand run);
  CLI::App& AddWithProgram(std::string_view path, std::string summary, RunCommand run);
  void DescribeGroup(std::string_view path, std::string summary);

  // argv without argv[0]. Returns the exit status.
  int Run(Context& context, std::vector<std::string> arguments) const;

  const std::vector<std::unique_ptr<Command>>& commands() const { return commands_; }
  // The words that can follow `words`, without what is not a command's beginning.
  std::vector<std::string> NextWords(const std::vector<std::string>& words) const;

 private:
  struct Group {
    std::string path;
    std::string summary;
  };
  const Command* Find(const std::vector<std::string>& words) const;
  std::string SummaryOf(const std::vector<std::string>& words) const;
  std::string GroupHelp(const std::vector<std::string>& words) const;
  int NoSuchCommand(Context& context, const std::vector<std::string>& words,
                    const std::vector<std::string>& arguments) const;
  int RunOne(Context& context, const Command& command, std::vector<std::string> arguments) const;

  std::vector<std::unique_ptr<Command>> commands_;
  std::vector<Group> groups_;
};

// The candidate that was probably meant; nothing if none is near.
std::optional<std::string> Nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

// All flags of a command, "--region", including --help.
std::vector<std::string> FlagsOf(const Command& command);

}  // namespace muster::cli
