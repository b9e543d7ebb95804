#include "store/ballast.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/fd.h"

namespace muster::store {

namespace {
// All of the file's blocks are on the disk, not only its length.
bool IsComplete(const std::filesystem::path& file, int64_t bytes) {
  struct stat info{};
  return ::stat(file.c_str(), &info) == 0 && info.st_size == bytes &&
         int64_t(info.st_blocks) * 512 >= bytes;
}
}  // namespace

Ballast::Ballast(std::filesystem::path file, int64_t bytes)
    : file_(std::move(file)), bytes_(bytes), is_held_(IsComplete(file_, bytes)) {}

Status Ballast::Restore() {
  if (is_held_) return {};
  UniqueFd fd(::open(file_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!fd) return FailErrno(errno, file_.string());
  const int error_number = ::posix_fallocate(fd.get(), 0, bytes_);
  if (error_number != 0) {
    ::unlink(file_.c_str());
    return FailErrno(error_number, file_.string());
  }
  is_held_ = true;
  return {};
}

bool Ballast::Release() {
  if (!std::exchange(is_held_, false)) return false;
  return ::unlink(file_.c_str()) == 0;
}

void ReserveBehind(const std::filesystem::path& file, int64_t bytes) {
  UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  struct stat info{};
  if (!fd || ::fstat(fd.get(), &info) != 0) return;
  (void)::fallocate(fd.get(), FALLOC_FL_KEEP_SIZE, info.st_size, bytes);
}

}  // namespace muster::store
