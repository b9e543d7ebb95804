#include "cli/command.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "cli/dict_arg.h"
#include "cli/table.h"

namespace muster::cli {
namespace {

using Words = std::vector<std::string>;

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, substituted});
    }
  }
  return row.back();
}

std::string Joined(const Words& words, std::string_view separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

std::string MessageName(const Words& words) {
  return words.empty() ? "muster" : "muster." + Joined(words, ".");
}

void Report(Context& context, std::string_view name, std::string_view message) {
  context.Say("{} ({}) {}", Paint(context.err, Color::kRed, "ERROR:"), name, message);
}

// "List of found errors:\t1.Field: …\t2.Field: …\t" with a line for each.
std::string Readable(std::string_view message) {
  while (message.ends_with('\t') || message.ends_with('\n')) message.remove_suffix(1);
  std::string text(message);
  for (size_t at = 0; (at = text.find('\t', at)) != std::string::npos; ++at) {
    text.replace(at, 1, "\n  ");
  }
  return text;
}

// CLI11 takes "--flag=" for a flag whose value follows; it is one whose value is empty.
Words SplitEmptyValues(const Words& arguments) {
  Words split;
  for (const std::string& argument : arguments) {
    if (argument.starts_with("--") && argument.find('=') == argument.size() - 1) {
      split.push_back(argument.substr(0, argument.size() - 1));
      split.emplace_back();
    } else {
      split.push_back(argument);
    }
  }
  return split;
}

bool TakesValue(const CLI::App& app, const std::string& flag) {
  const CLI::Option* option = app.get_option_no_throw(flag);
  return option != nullptr && option->get_expected_max() > 0;
}

struct Program {
  Words words;
  bool is_marked = false;  // it stood behind "--"
};

// Takes the program and its arguments off the end: what follows "--", or the first word that is
// neither a flag nor a flag's value.
Program TakeProgram(const CLI::App& app, Words& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const bool is_flag = word.size() > 1 && word.starts_with('-');
    if (word != "--" && is_flag) {
      if (word.find('=') == std::string::npos && TakesValue(app, word)) ++i;
      continue;
    }
    const size_t first = word == "--" ? i + 1 : i;
    Program program{Words(arguments.begin() + static_cast<ptrdiff_t>(first), arguments.end()),
                    word == "--"};
    arguments.resize(i);
    return program;
  }
  return {};
}

// A flag of the command's own behind the program is the program's; the user may have meant
// otherwise.
void HintAtMisplacedFlag(Context& context, const Command& command, const Words& program) {
  const Words flags = FlagsOf(command);
  const auto is_own = [&flags](const std::string& word) {
    return std::ranges::find(flags, word.substr(0, word.find('='))) != flags.end();
  };
  const auto found = std::ranges::find_if(program, is_own);
  if (found == program.end() || std::ranges::find(program, "--") < found) return;
  context.Say(
      "Note: {0} stands behind the program, so it is passed on to it. If it is meant for muster, "
      "put "
      "it in front: muster {1} {0} … -- {2}. If not, -- in front of the program says so.",
      *found, Joined(command.words, " "), program.front());
}

std::string HelpOf(const Command& command) {
  constexpr std::string_view kOptions = "[OPTIONS]";
  std::string help = command.app->help();
  if (const size_t at = help.find("\nUsage: "); at != std::string::npos) help.insert(at, "\n");
  if (const size_t at = help.find(kOptions); at != std::string::npos) {
    help.replace(at, kOptions.size(),
                 command.takes_program ? "[FLAGS] -- PROGRAM [ARGS…]" : "[FLAGS]");
  }
  return help;
}

std::string UnknownArguments(const Command& command, const Words& unknown) {
  std::string text = "unrecognized arguments:";
  for (const std::string& argument : unknown) {
    text += " " + argument;
    if (!argument.starts_with("--")) continue;
    const auto near = Nearest(argument.substr(0, argument.find('=')), FlagsOf(command));
    if (near) text += fmt::format(" (did you mean '{}'?)", *near);
  }
  return text;
}

}  // namespace

std::optional<std::string> Nearest(std::string_view word, const Words& candidates) {
  std::optional<std::string> nearest;
  size_t least = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    // A beginning that was typed rightly counts as near.
    const bool begins = word.size() >= 4 && candidate.starts_with(word);
    const size_t distance = begins ? 1 : EditDistance(word, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::vector<std::string> FlagsOf(const Command& command) {
  Words flags;
  for (const CLI::Option* option : command.app->get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

int Invocation::Usage(const Error& error) {
  Report(context, name, error.message);
  return kExitUsage;
}

int Invocation::Failure(const Error& error) {
  Report(context, name, Readable(error.message));
  return kExitFailed;
}

Registry::Registry() = default;
Registry::~Registry() = default;

CLI::App& Registry::Add(std::string_view path, std::string summary, RunCommand run) {
  auto command = std::make_unique<Command>();
  command->words = SplitNonEmpty(path, ' ');
  command->summary = summary;
  command->app = std::make_unique<CLI::App>(std::move(summary), fmt::format("muster {}", path));
  command->app->allow_extras();
  command->app->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  command->run = std::move(run);
  commands_.push_back(std::move(command));
  return *commands_.back()->app;
}

CLI::App& Registry::AddWithProgram(std::string_view path, std::string summary, RunCommand run) {
  CLI::App& app = Add(path, std::move(summary), std::move(run));
  commands_.back()->takes_program = true;
  return app;
}

void Registry::DescribeGroup(std::string_view path, std::string summary) {
  groups_.push_back({std::string(path), std::move(summary)});
}

const Command* Registry::Find(const Words& words) const {
  const auto found = std::ranges::find_if(
      commands_, [&words](const auto& command) { return command->words == words; });
  return found == commands_.end() ? nullptr : found->get();
}

Words Registry::NextWords(const Words& words) const {
  Words next;
  for (const auto& command : commands_) {
    const bool below = command->words.size() > words.size() &&
                       std::equal(words.begin(), words.end(), command->words.begin());
    if (!below) continue;
    const std::string& word = command->words[words.size()];
    if (std::ranges::find(next, word) == next.end()) next.push_back(word);
  }
  return next;
}

std::string Registry::SummaryOf(const Words& words) const {
  if (const Command* command = Find(words)) return command->summary;
  const std::string path = Joined(words, " ");
  const auto group =
      std::ranges::find_if(groups_, [&path](const Group& group) { return group.path == path; });
  return group == groups_.end() ? "" : group->summary;
}

std::string Registry::GroupHelp(const Words& words) const {
  const std::string path = Joined(words, " ");
  std::string text = SummaryOf(words);
  if (!text.empty()) text += "\n\n";
  text += fmt::format("Usage: muster {}{}COMMAND [FLAGS]\n\nCommands:\n", path,
                      path.empty() ? "" : " ");
  Table table;
  for (const std::string& word : NextWords(words)) {
    Words whole = words;
    whole.push_back(word);
    table.rows.push_back({"  " + word, SummaryOf(whole)});
  }
  text += FormatTable(table);
  text += fmt::format("\nFlags of a command: muster {}{}COMMAND --help\n", path,
                      path.empty() ? "" : " ");
  return text;
}

int Registry::NoSuchCommand(Context& context, const Words& words, const Words& arguments) const {
  const bool wants_help = !arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h" ||
                                                 (arguments[0] == "help" && words.empty()));
  if (wants_help) {
    context.out.Write(GroupHelp(words));
    return kExitOk;
  }
  if (arguments.empty()) {
    context.Say("{}", GroupHelp(words));
    return kExitUsage;
  }
  const Words choices = NextWords(words);
  std::string message = fmt::format("Invalid choice: '{}'.", arguments[0]);
  if (const auto near = Nearest(arguments[0], choices)) {
    message += fmt::format(" Did you mean '{}'?", *near);
  }
  Report(context, MessageName(words),
         fmt::format("{}\nValid choices are [{}].", message, fmt::join(choices, ", ")));
  return kExitUsage;
}

int Registry::RunOne(Context& context, const Command& command, Words arguments) const {
  Invocation invocation{context, *this, MessageName(command.words), {}};
  arguments = SplitEmptyValues(arguments);
  if (command.takes_program) {
    Program program = TakeProgram(*command.app, arguments);
    if (!program.is_marked) HintAtMisplacedFlag(context, command, program.words);
    invocation.rest = std::move(program.words);
  }
  try {
    Words reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants it
    command.app->parse(reversed);
  } catch (const CLI::CallForHelp&) {
    context.out.Write(HelpOf(command));
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return invocation.Usage(Error{Code::kInvalidArgument, error.what()});
  }
  if (const Words unknown = command.app->remaining(); !unknown.empty()) {
    return invocation.Usage(Error{Code::kInvalidArgument, UnknownArguments(command, unknown)});
  }
  const Result<int> status = command.run(invocation);
  return status ? *status : invocation.Failure(status.error());
}

int Registry::Run(Context& context, Words arguments) const {
  // gcloud's flags may stand before the command: they are moved behind it.
  Words before;
  size_t at = 0;
  for (; at + 1 < arguments.size() && arguments[at].starts_with("--"); ++at) {
    const bool known = arguments[at].starts_with("--project") ||
                       arguments[at].starts_with("--region") ||
                       arguments[at].starts_with("--endpoint");
    if (!known) break;
    before.push_back(arguments[at]);
    if (arguments[at].find('=') == std::string::npos) before.push_back(arguments[++at]);
  }
  if (at < arguments.size() && arguments[at] == "ai") ++at;  // muster ai custom-jobs …
  Words words;
  for (; at < arguments.size() && Find(words) == nullptr; ++at) {
    const Words next = NextWords(words);
    if (std::ranges::find(next, arguments[at]) == next.end()) break;
    words.push_back(arguments[at]);
  }
  at = std::min(at, arguments.size());
  Words rest(std::next(arguments.begin(), static_cast<ptrdiff_t>(at)), arguments.end());
  int status = 0;
  if (const Command* command = Find(words)) {
    rest.insert(rest.begin(), before.begin(), before.end());
    status = RunOne(context, *command, std::move(rest));
  } else {
    status = NoSuchCommand(context, words, rest);
  }
  context.out.Flush();
  context.err.Flush();
  const int error_number = context.out.error_number();
  if (error_number == EPIPE) return kExitOutputClosed;
  if (error_number != 0) {
    Report(context, "muster",
           fmt::format("cannot write to standard output: {}", std::strerror(error_number)));
    return kExitFailed;
  }
  return status;
}

}  // namespace muster::cli
