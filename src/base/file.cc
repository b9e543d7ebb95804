#include "base/file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/check.h"
#include "base/fd.h"

namespace muster {

namespace fs = std::filesystem;

Result<std::string> ReadFile(const fs::path& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return FailErrno(errno, path.string());
  std::string content;
  struct stat info{};
  if (::fstat(fd.get(), &info) == 0 && info.st_size > 0) content.reserve(size_t(info.st_size) + 1);
  char buffer[16384];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FailErrno(errno, path.string());
    if (got == 0) return content;
    content.append(buffer, size_t(got));
  }
}

namespace {
Status WriteAll(int fd, std::string_view content, const fs::path& path) {
  while (!content.empty()) {
    const ssize_t put = ::write(fd, content.data(), content.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return FailErrno(errno, path.string());
    content.remove_prefix(size_t(put));
  }
  return {};
}
}  // namespace

Status WriteFileAtomic(const fs::path& path, std::string_view content, int mode) {
  const fs::path beside = path.string() + "." + RandomHex(8) + ".tmp";
  UniqueFd fd(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd) return FailErrno(errno, beside.string());
  Status written = WriteAll(fd.get(), content, path);
  if (written && ::fsync(fd.get()) != 0) written = FailErrno(errno, path.string());
  if (written && ::rename(beside.c_str(), path.c_str()) != 0) {
    written = FailErrno(errno, path.string());
  }
  if (!written) ::unlink(beside.c_str());
  return written;
}

Status MakeDirectories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return FailErrno(error.value(), path.string());
  return {};
}

namespace {
// Unlinks the entries below `directory` that lie on `device`.
Status RemoveEntries(const fs::path& directory, dev_t device) {
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    struct stat info{};
    if (::lstat(it->path().c_str(), &info) != 0) continue;
    if (info.st_dev != device) {
      return Fail(Code::kFailedPrecondition, "{}: something is mounted there; left as it is",
                  it->path().string());
    }
    if (S_ISDIR(info.st_mode)) {
      ::chmod(it->path().c_str(), 0700);  // users may have left unreadable folders
      MUSTER_TRY(RemoveEntries(it->path(), device));
      if (::rmdir(it->path().c_str()) != 0 && errno != ENOENT) {
        return FailErrno(errno, it->path().string());
      }
    } else if (::unlink(it->path().c_str()) != 0 && errno != ENOENT) {
      return FailErrno(errno, it->path().string());
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return FailErrno(error.value(), directory.string());
  }
  return {};
}
}  // namespace

Status RemoveTree(const fs::path& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return {};
    return FailErrno(errno, path.string());
  }
  if (!S_ISDIR(info.st_mode)) {
    if (::unlink(path.c_str()) != 0) return FailErrno(errno, path.string());
    return {};
  }
  MUSTER_TRY(RemoveEntries(path, info.st_dev));
  if (::rmdir(path.c_str()) != 0 && errno != ENOENT) return FailErrno(errno, path.string());
  return {};
}

std::string RandomHex(size_t digits) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string bytes(digits, '\0');
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    MUSTER_CHECK(got > 0 || errno == EINTR);
    if (got > 0) filled += size_t(got);
  }
  for (char& byte : bytes) byte = kDigits[static_cast<unsigned char>(byte) & 15];
  return bytes;
}

}  // namespace muster
