#include "cli/context.h"

#include <unistd.h>

#include <cerrno>

extern char** environ;  // NOLINT(readability-identifier-naming): POSIX's name

namespace muster::cli {
namespace {

constexpr size_t kBufferBytes = 64 << 10;

Variables ReadEnvironment() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    variables.try_emplace(std::string(text.substr(0, equals)), text.substr(equals + 1));
  }
  return variables;
}

bool MayColor() {
  const char* no_color = ::getenv("NO_COLOR");
  const char* terminal = ::getenv("TERM");
  if (no_color != nullptr && *no_color != '\0') return false;
  return terminal != nullptr && std::string_view(terminal) != "dumb";
}

// The logical directory that the shell shows, if it is the one we are in: /home/me/project rather
// than the place that a link on the way leads to.
std::filesystem::path CurrentDirectory() {
  std::error_code error;
  std::filesystem::path real = std::filesystem::current_path(error);
  const char* shown = ::getenv("PWD");
  if (shown != nullptr && *shown == '/' && std::filesystem::equivalent(shown, real, error)) {
    return shown;
  }
  return real;
}

}  // namespace

Output Output::ToDescriptor(int fd, bool may_color) {
  Output output;
  output.fd_ = fd;
  output.is_terminal_ = ::isatty(fd) == 1;
  output.has_color_ = output.is_terminal_ && may_color;
  return output;
}

Output Output::ToString(bool is_terminal) {
  Output output;
  output.is_terminal_ = output.has_color_ = is_terminal;
  return output;
}

void Output::Write(std::string_view text) {
  if (error_number_ != 0) return;
  buffer_ += text;
  if (fd_ >= 0 && buffer_.size() >= kBufferBytes) Flush();
}

void Output::Flush() {
  if (fd_ < 0 || error_number_ != 0) return;
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      error_number_ = errno;
      break;
    }
    rest.remove_prefix(written);
  }
  buffer_.clear();
}

const std::string* FindVariable(const Variables& variables, std::string_view name) {
  const auto found = variables.find(name);
  return found == variables.end() || found->second.empty() ? nullptr : &found->second;
}

ProcessContext::ProcessContext()
    : out_(Output::ToDescriptor(STDOUT_FILENO, MayColor())),
      err_(Output::ToDescriptor(STDERR_FILENO, MayColor())),
      context_{out_, err_, ReadEnvironment(), CurrentDirectory(), clock_} {}

std::string Paint(const Output& output, Color color, std::string_view text) {
  if (!output.has_color()) return std::string(text);
  int code = 0;
  switch (color) {
    case Color::kRed:
      code = 31;
      break;
    case Color::kGreen:
      code = 32;
      break;
    case Color::kYellow:
      code = 33;
      break;
    case Color::kBlue:
      code = 34;
      break;
    case Color::kMagenta:
      code = 35;
      break;
    case Color::kCyan:
      code = 36;
      break;
    case Color::kDim:
      code = 2;
      break;
    case Color::kBold:
      code = 1;
      break;
  }
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

}  // namespace muster::cli
