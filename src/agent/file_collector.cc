#include "agent/file_collector.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <system_error>
#include <utility>

namespace muster::agent {

namespace fs = std::filesystem;

namespace {
constexpr size_t kReadBytes = 256 * 1024;
constexpr int kReadsAtOnce = 16;
constexpr size_t kPartialBytesMax = 1 << 20;

bool IsCollected(const std::string& name) {
  return name.starts_with("output") && name.ends_with(".log");
}
}  // namespace

void FileCollector::FindFiles() {
  std::error_code error;
  for (fs::directory_iterator it(directory_, error), end; !error && it != end;
       it.increment(error)) {
    if (!IsCollected(it->path().filename().string())) continue;
    struct stat info{};
    if (::lstat(it->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (files_.contains({info.st_dev, info.st_ino})) continue;
    if (files_.size() >= kCollectedFilesMax && !MakeRoom()) return SayThatThereAreTooMany();
    UniqueFd fd(::open(it->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    files_.try_emplace({info.st_dev, info.st_ino}, File{std::move(fd), 0, {}});
  }
}

// Lets go of those that were deleted and are read out. Only when there is no room: a program may go
// on writing to a file after it deleted it.
bool FileCollector::MakeRoom() {
  for (auto it = files_.begin(); it != files_.end();) {
    File& file = it->second;
    struct stat info{};
    const bool is_gone = ::fstat(file.fd.get(), &info) == 0 && info.st_nlink == 0;
    if (is_gone && info.st_size <= file.offset) {
      EndLine(file);
      it = files_.erase(it);
    } else {
      ++it;
    }
  }
  return files_.size() < kCollectedFilesMax;
}

void FileCollector::SayThatThereAreTooMany() {
  if (std::exchange(said_too_many_, true)) return;
  log_.Write(logs::Stream::kFile,
             fmt::format("muster: more than {} files output*.log in log-storage: the others are "
                         "collected once some of these are deleted\n",
                         kCollectedFilesMax));
}

void FileCollector::EndLine(File& file) {
  if (!file.partial.empty()) log_.Write(logs::Stream::kFile, file.partial + "\n");
  file.partial.clear();
}

// One piece; true if there may be more.
bool FileCollector::Read(File& file) {
  static thread_local char buffer[kReadBytes];
  struct stat info{};
  if (::fstat(file.fd.get(), &info) == 0 && info.st_size < file.offset) {
    file.offset = 0;  // begun anew
  }
  const ssize_t got = ::pread(file.fd.get(), buffer, sizeof buffer, file.offset);
  if (got <= 0) return false;
  file.offset += got;
  const std::string_view bytes(buffer, size_t(got));
  const size_t end = bytes.rfind('\n');
  if (end != std::string_view::npos) {
    // Whole lines only: several files share one stream.
    file.partial += bytes.substr(0, end + 1);
    log_.Write(logs::Stream::kFile, file.partial);
    file.partial = bytes.substr(end + 1);
  } else {
    file.partial += bytes;
  }
  if (file.partial.size() > kPartialBytesMax) {
    log_.Write(logs::Stream::kFile, file.partial + "\n");
    file.partial.clear();
  }
  return size_t(got) == sizeof buffer;
}

bool FileCollector::Poll() {
  FindFiles();
  bool more = false;
  for (auto& [id, file] : files_) {
    bool more_here = true;
    for (int reads = 0; reads < kReadsAtOnce && more_here; ++reads) more_here = Read(file);
    more = more || more_here;
  }
  return more;
}

void FileCollector::Finish() {
  while (Poll()) {
  }
  for (auto& [id, file] : files_) EndLine(file);
  files_.clear();
}

}  // namespace muster::agent
