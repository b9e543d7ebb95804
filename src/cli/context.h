// All that a command touches of the world, so that tests can run commands in their own process.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/time.h"

namespace muster::cli {

// Where text goes: a file descriptor, or a string in tests. Buffered; a failed write is remembered,
// and what follows it is dropped.
class Output {
 public:
  // Colours are used if the descriptor is a terminal and the environment does not forbid them
  // (NO_COLOR, TERM=dumb).
  static Output ToDescriptor(int fd, bool may_color);
  static Output ToString(bool is_terminal = false);

  void Write(std::string_view text);
  void Flush();

  bool is_terminal() const { return is_terminal_; }
  bool has_color() const { return has_color_; }
  // 0, or errno of the first write that failed; EPIPE: the reader has gone.
  int error_number() const { return error_number_; }
  // What ToString()'s output holds so far.
  const std::string& text() const { return buffer_; }

  template <typename... Args>
  void Print(fmt::format_string<Args...> format, Args&&... args) {
    Write(fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  int fd_ = -1;  // -1: keeps all in buffer_
  bool is_terminal_ = false;
  bool has_color_ = false;
  int error_number_ = 0;
  std::string buffer_;
};

// Environment variables. A copy of them outlives the context, e.g. in a thread.
using Variables = std::map<std::string, std::string, std::less<>>;
// Null if it is unset or empty.
const std::string* FindVariable(const Variables& variables, std::string_view name);

struct Context {
  Output& out;
  Output& err;
  Variables environment;
  std::filesystem::path directory;  // where the user stands
  const Clock& clock;

  // Messages for people, on standard error, behind what standard output holds.
  template <typename... Args>
  void Say(fmt::format_string<Args...> format, Args&&... args) {
    out.Flush();
    err.Write(fmt::format(format, std::forward<Args>(args)...) + "\n");
    err.Flush();
  }
};

// The context of this process.
class ProcessContext {
 public:
  ProcessContext();
  Context& context() { return context_; }

 private:
  Output out_;
  Output err_;
  SystemClock clock_;
  Context context_;
};

enum class Color { kRed, kGreen, kYellow, kBlue, kMagenta, kCyan, kDim, kBold };
// `text` in a colour if the output has colours.
std::string Paint(const Output& output, Color color, std::string_view text);

}  // namespace muster::cli
