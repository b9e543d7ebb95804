#include "attempt/files.h"

#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <muster/v1/agent.pb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "attempt/proc_stat.h"
#include "base/file.h"

namespace muster::attempt {

namespace {
using google::protobuf::Message;

// A report is a few hundred bytes and a detail of at most 2,000.
constexpr size_t kReservedBytes = 16 * 1024;

Result<std::string> ToJson(const Message& message) {
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text);
  if (!status.ok()) return Fail(Code::kInternal, "{}", status.ToString());
  return text + "\n";
}

Status FromJsonFile(const std::filesystem::path& path, Message& message) {
  MUSTER_ASSIGN(const std::string text, ReadFile(path));
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // a newer musterd may know more
  const auto status = google::protobuf::util::JsonStringToMessage(text, &message, options);
  if (!status.ok()) return Fail(Code::kDataLoss, "{}: {}", path.string(), status.ToString());
  return {};
}

struct flock WholeFile() {
  struct flock whole{};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return whole;
}
}  // namespace

Result<std::string> ThisBootId() {
  MUSTER_ASSIGN(std::string text, ReadFile("/proc/sys/kernel/random/boot_id"));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Result<ProcessIdentity> IdentifyProcess(int pid) {
  const auto stat = ReadProcStat(pid);
  if (!stat) return Fail(Code::kNotFound, "there is no process {}", pid);
  if (stat->is_zombie()) return Fail(Code::kNotFound, "process {} has ended", pid);
  ProcessIdentity identity;
  identity.pid = pid;
  identity.start_time_ticks = stat->start_time_ticks;
  MUSTER_ASSIGN(identity.boot_id, ThisBootId());
  return identity;
}

bool IsAlive(const ProcessIdentity& process) {
  const auto now = IdentifyProcess(process.pid);
  return now && *now == process;
}

Status AttemptFiles::WriteLaunch(const muster::v1::LaunchSpec& spec) const {
  MUSTER_ASSIGN(const std::string text, ToJson(spec));
  return WriteFileAtomic(launch(), text, 0600);
}

Result<muster::v1::LaunchSpec> AttemptFiles::ReadLaunch() const {
  muster::v1::LaunchSpec spec;
  MUSTER_TRY(FromJsonFile(launch(), spec));
  return spec;
}

Status AttemptFiles::WriteAgent(const ProcessIdentity& identity) const {
  const nlohmann::json document = {{"pid", identity.pid},
                                   {"start_time_ticks", identity.start_time_ticks},
                                   {"boot_id", identity.boot_id}};
  // Whole or not at all for every process of this boot; not synced, since a start must be quick and
  // nothing of the attempt survives the machine: LaunchSpec.boot_id tells that it was restarted.
  const std::string text = document.dump() + "\n";
  const auto beside = directory_ / "agent.json.tmp";
  const UniqueFd fd(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd || ::write(fd.get(), text.data(), text.size()) != ssize_t(text.size()) ||
      ::rename(beside.c_str(), agent().c_str()) != 0) {
    return FailErrno(errno, agent().string());
  }
  return {};
}

Result<ProcessIdentity> AttemptFiles::ReadAgent() const {
  MUSTER_ASSIGN(const std::string text, ReadFile(agent()));
  const auto document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  ProcessIdentity identity;
  const bool understood =
      document.is_object() && document.contains("pid") && document["pid"].is_number_integer() &&
      document.contains("start_time_ticks") && document["start_time_ticks"].is_number_unsigned() &&
      document.contains("boot_id") && document["boot_id"].is_string();
  if (!understood) {
    return Fail(Code::kDataLoss, "{} does not tell which process the agent is", agent().string());
  }
  identity.pid = document["pid"].get<int>();
  identity.start_time_ticks = document["start_time_ticks"].get<uint64_t>();
  identity.boot_id = document["boot_id"].get<std::string>();
  return identity;
}

Status AttemptFiles::ReserveReport() const {
  const auto path = reserved_report();
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!fd) return FailErrno(errno, path.string());
  const int error = ::posix_fallocate(fd.get(), 0, kReservedBytes);
  if (error != 0) return FailErrno(error, path.string());
  return {};
}

Status AttemptFiles::WriteReport(const muster::v1::ReportRequest& report) const {
  muster::v1::ReportRequest without_token = report;
  without_token.clear_token();
  MUSTER_ASSIGN(const std::string text, ToJson(without_token));
  const auto reserved = reserved_report();
  UniqueFd fd(::open(reserved.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd || text.size() > kReservedBytes) {
    MUSTER_TRY(WriteFileAtomic(this->report(), text));
    if (fd) ::unlink(reserved.c_str());
    return {};
  }
  // Into the blocks that are set aside; only then does the file get its name.
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t put = ::pwrite(fd.get(), text.data() + done, text.size() - done, off_t(done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return FailErrno(errno, reserved.string());
    done += size_t(put);
  }
  if (::ftruncate(fd.get(), off_t(text.size())) != 0 || ::fdatasync(fd.get()) != 0 ||
      ::rename(reserved.c_str(), this->report().c_str()) != 0) {
    return FailErrno(errno, this->report().string());
  }
  return {};
}

Result<muster::v1::ReportRequest> AttemptFiles::ReadReport() const {
  muster::v1::ReportRequest report;
  MUSTER_TRY(FromJsonFile(this->report(), report));
  if (!report.has_exited()) {
    return Fail(Code::kDataLoss, "{} does not tell how the replica ended", this->report().string());
  }
  return report;
}

// Locks of the open file description: they pass to no other process (the descriptor is closed on
// exec), and can be looked for without being taken.
Result<UniqueFd> AttemptFiles::Lock() const {
  UniqueFd fd(::open(lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd) return FailErrno(errno, lock().string());
  struct flock whole = WholeFile();
  if (::fcntl(fd.get(), F_OFD_SETLK, &whole) == 0) return fd;
  if (errno != EAGAIN && errno != EACCES) return FailErrno(errno, lock().string());
  return Fail(Code::kAborted, "{}: another agent holds it", lock().string());
}

bool AttemptFiles::IsLocked() const {
  UniqueFd fd(::open(lock().c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return false;
  struct flock whole = WholeFile();
  return ::fcntl(fd.get(), F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
}

}  // namespace muster::attempt
