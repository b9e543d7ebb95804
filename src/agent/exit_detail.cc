#include "agent/exit_detail.h"

#include <fmt/format.h>
#include <string.h>
#include <sys/wait.h>

#include "base/utf8.h"

namespace muster::agent {

namespace {
constexpr std::string_view kTraceback = "Traceback (most recent call last):";
constexpr std::string_view kGap = "\n  …\n";
constexpr int kLastLines = 20;

std::string_view WithoutTrailingSpace(std::string_view text) {
  const size_t end = text.find_last_not_of(" \t\r\n");
  return text.substr(0, end == std::string_view::npos ? 0 : end + 1);
}

// The end of `text`, from the beginning of a line if possible.
std::string_view Ending(std::string_view text, size_t size_max) {
  if (text.size() <= size_max) return text;
  text.remove_prefix(text.size() - size_max);
  const size_t newline = text.find('\n');
  if (newline != std::string_view::npos && newline + 1 < text.size()) {
    return text.substr(newline + 1);
  }
  while (!text.empty() && (static_cast<unsigned char>(text.front()) & 0xC0) == 0x80) {
    text.remove_prefix(1);
  }
  return text;
}

std::string_view Beginning(std::string_view text, size_t size_max) {
  return text.substr(0, CharacterBoundary(text, size_max));
}

// The end of the line that names the exception: the first one after the frames, which are indented.
size_t EndOfException(std::string_view text) {
  size_t at = text.find('\n');
  while (at != std::string_view::npos) {
    const size_t next = text.find('\n', at + 1);
    const std::string_view line = text.substr(at + 1, next - at - 1);
    const bool is_frame = line.empty() || line.front() == ' ' || line.front() == '\t';
    if (!is_frame) return next == std::string_view::npos ? text.size() : next;
    at = next;
  }
  return text.size();
}

std::string TracebackDetail(std::string_view text, size_t size_max) {
  text = WithoutTrailingSpace(text);
  if (text.size() <= size_max) return std::string(text);
  const size_t end = EndOfException(text);
  if (end <= size_max) return std::string(Beginning(text, size_max));
  const size_t rest = size_max - kTraceback.size() - kGap.size();
  return std::string(kTraceback).append(kGap).append(Ending(text.substr(0, end), rest));
}

std::string_view LastLines(std::string_view text, size_t size_max) {
  text = WithoutTrailingSpace(text);
  size_t at = text.size();
  for (int line = 0; line < kLastLines && at != std::string_view::npos; ++line) {
    at = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  }
  if (at != std::string_view::npos) text.remove_prefix(at + 1);
  return Ending(text, size_max);
}
}  // namespace

int ExitStatus(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string ExitDetail(int wait_status, std::string_view stderr_tail) {
  const std::string text = ToValidUtf8(stderr_tail);
  std::string detail;
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    const char* name = ::sigabbrev_np(signal);
    const char* meaning = ::sigdescr_np(signal);
    detail = fmt::format("Ended by signal {} (SIG{}: {}).", signal, name ? name : "?",
                         meaning ? meaning : "?");
  }
  const size_t room = kDetailBytesMax - detail.size() - 1;
  const size_t traceback = text.rfind(kTraceback);
  const std::string tail = traceback == std::string::npos
                               ? std::string(LastLines(text, room))
                               : TracebackDetail(std::string_view(text).substr(traceback), room);
  if (!detail.empty() && !tail.empty()) detail += '\n';
  return detail + tail;
}

std::string OutOfMemoryDetail(int64_t limit_bytes) {
  return fmt::format(
      "Out of memory: the kernel ended a process at the replica's limit. Its machine type gives it "
      "{} MiB: use a larger machine type, or memory_limits: off in musterd's configuration.",
      limit_bytes >> 20);
}

std::string FitDetail(std::string_view text) {
  return std::string(Beginning(ToValidUtf8(text), kDetailBytesMax));
}

}  // namespace muster::agent
