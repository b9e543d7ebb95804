#include "agent/supervisor.h"

#include <fcntl.h>
#include <google/protobuf/util/time_util.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "agent/exit_detail.h"
#include "agent/packages.h"
#include "agent/process_tree.h"
#include "agent/sandbox.h"
#include "base/file.h"
#include "base/log.h"

namespace muster::agent {

namespace {
using google::protobuf::util::TimeUtil;
using muster::v1::Exited;
using std::chrono::milliseconds;

constexpr milliseconds kDefaultGrace(10'000);
// What a program left behind when it ended by itself gets this long.
constexpr milliseconds kLeftoverGrace(2'000);
constexpr milliseconds kPollInterval(500);
constexpr milliseconds kKillIntervalMax(200);
constexpr milliseconds kCgroupRemovalLimit(2'000);
constexpr milliseconds kReportLimit(5'000);

muster::v1::ReportRequest Identity(const muster::v1::LaunchSpec& spec) {
  muster::v1::ReportRequest identity;
  *identity.mutable_id() = spec.id();
  identity.set_token(spec.token());
  return identity;
}

google::protobuf::Timestamp ToTimestamp(Time time) {
  return TimeUtil::MicrosecondsToTimestamp(ToMicros(time));
}

bool HasVariable(const std::vector<std::string>& environment, std::string_view name_and_equals) {
  return std::ranges::any_of(environment, [&](const std::string& variable) {
    return variable.starts_with(name_and_equals);
  });
}
}  // namespace

Supervisor::Supervisor(muster::v1::LaunchSpec spec, attempt::AttemptFiles files, UniqueFd log)
    : spec_(std::move(spec)),
      files_(std::move(files)),
      log_(std::move(log), clock_),
      out_(logs::Stream::kStdout, log_),
      err_(logs::Stream::kStderr, log_),
      collector_(files_.log_storage(), log_),
      stop_asked_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      reporter_(spec_.endpoint_file(), Identity(spec_), [fd = stop_asked_.get()] {
        const uint64_t one = 1;
        (void)!::write(fd, &one, sizeof one);
      }) {}

Supervisor::~Supervisor() = default;

Status Supervisor::Run() {
  MUSTER_TRY(MakeLoop());
  Status started = Prepare();
  if (started)
    started = spec_.python_packages().files().empty() ? StartProgram() : StartInstaller();
  if (started) {
    Loop();
  } else {
    never_started_ = started.error().message;
  }
  CollectRest();
  return Report();
}

Status Supervisor::Prepare() {
  for (const auto& directory : {files_.work(), files_.tmp(), files_.log_storage()}) {
    MUSTER_TRY(MakeDirectories(directory));
  }
  for (const auto& mount : spec_.isolation().mounts()) MUSTER_TRY(MakeDirectories(mount.source()));
  if (!spec_.isolation().mounts().empty()) {
    MUSTER_TRY(MakeDirectories(files_.directory() / "view"));
  }
  MUSTER_ASSIGN(cgroups_, ReplicaCgroups::Make(spec_.isolation()));
  return {};
}

std::vector<std::string> Supervisor::Environment() const {
  std::vector<std::string> environment;
  for (const auto& variable : spec_.environment()) {
    environment.push_back(variable.name() + "=" + variable.value());
  }
  if (!HasVariable(environment, "TMPDIR=")) {
    environment.push_back("TMPDIR=" + files_.tmp().string());
  }
  if (!HasVariable(environment, "HOME=")) {
    const char* const home = std::getenv("HOME");
    environment.push_back("HOME=" + (home ? std::string(home) : files_.work().string()));
  }
  return environment;
}

Status Supervisor::StartInstaller() {
  phase_ = Phase::kInstalling;
  const Program program =
      PackageInstaller(spec_.python_packages(), Environment(), files_.work().string());
  // On the host's network: packages may come from an index.
  MUSTER_ASSIGN(Child child, StartChild(program, [this] { return cgroups_.Join(); }));
  return Watch(std::move(child));
}

Status Supervisor::StartProgram() {
  phase_ = Phase::kStarting;
  Program program;
  program.argv.assign(spec_.argv().begin(), spec_.argv().end());
  program.environment = Environment();
  program.working_directory =
      spec_.working_directory().empty() ? files_.work().string() : spec_.working_directory();
  if (!spec_.python_packages().files().empty()) UseEnvironment(spec_.python_packages(), program);
  MUSTER_ASSIGN(Child child, StartChild(program, [this]() -> Status {
                  MUSTER_TRY(cgroups_.Join());
                  return EnterSandbox(spec_.isolation(), files_.directory() / "view");
                }));
  return Watch(std::move(child));
}

Status Supervisor::Watch(Child child) {
  main_pid_ = child.pid;
  has_ended_ = false;
  tree_is_empty_ = false;
  status_text_.clear();
  status_ = std::move(child.status);
  out_.Open(std::move(child.out));
  err_.Open(std::move(child.err));
  for (const int fd : {status_.get(), out_.fd(), err_.fd()}) MUSTER_TRY(Add(fd));
  return {};
}

Status Supervisor::MakeLoop() {
  epoll_.Reset(::epoll_create1(EPOLL_CLOEXEC));
  sigset_t handled;
  sigemptyset(&handled);
  sigaddset(&handled, SIGTERM);
  sigaddset(&handled, SIGCHLD);
  signals_.Reset(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!epoll_ || !signals_ || !stop_asked_) return FailErrno(errno, "the event loop");
  MUSTER_TRY(Add(signals_.get()));
  return Add(stop_asked_.get());
}

Status Supervisor::Add(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return FailErrno(errno, "epoll");
  return {};
}

void Supervisor::Loop() {
  while (!IsDone()) {
    std::array<epoll_event, 8> events;
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), int(events.size()), NextTimeoutMs());
    for (int i = 0; i < count; ++i) OnReadable(events[size_t(i)].data.fd);
    OnTimers();
  }
}

int Supervisor::NextTimeoutMs() const {
  const auto now = SteadyClock::now();
  auto wait = std::chrono::ceil<milliseconds>(next_poll_ - now);
  if (kill_at_) wait = std::min(wait, std::chrono::ceil<milliseconds>(*kill_at_ - now));
  if (const auto tick = log_.NextTick()) {
    wait = std::min(wait, std::chrono::ceil<milliseconds>(*tick - clock_.Now()));
  }
  return int(std::clamp<int64_t>(wait.count(), 0, 1000));
}

void Supervisor::OnReadable(int fd) {
  if (fd == signals_.get()) return OnSignals();
  if (fd == stop_asked_.get()) {
    uint64_t count = 0;
    (void)!::read(fd, &count, sizeof count);
    return Stop();
  }
  if (fd == status_.get()) return OnStatus();
  if (fd == out_.fd()) out_.Pump();
  if (fd == err_.fd()) err_.Pump();
  reporter_.SetLogSize(log_.size_bytes());
}

void Supervisor::OnTimers() {
  const auto now = SteadyClock::now();
  log_.Tick();
  if (now >= next_poll_) {
    next_poll_ = collector_.Poll() ? now : now + kPollInterval;
  }
  if (kill_at_ && now >= *kill_at_) KillRound();
}

// At the end of the pipe the program runs, unless it said why it does not.
void Supervisor::OnStatus() {
  std::array<char, 4096> buffer;
  const ssize_t got = ::read(status_.get(), buffer.data(), buffer.size());
  if (got > 0) {
    status_text_.append(buffer.data(), size_t(got));
    return;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  status_.Reset();
  if (phase_ != Phase::kStarting || !status_text_.empty()) return;
  phase_ = Phase::kRunning;
  start_time_ = clock_.Now();
  muster::v1::Started started;
  *started.mutable_time() = ToTimestamp(*start_time_);
  started.set_process_id(main_pid_);
  reporter_.Started(started);
}

void Supervisor::OnSignals() {
  bool stop = false;
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    stop = stop || info.ssi_signo == SIGTERM;
  }
  // First what happened by itself: a program that has ended cannot be stopped any more.
  Reap();
  if (stop) Stop();
}

void Supervisor::Reap() {
  for (;;) {
    int wait_status = 0;
    const pid_t pid = ::waitpid(-1, &wait_status, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    tree_is_empty_ = pid < 0 && errno == ECHILD;
    if (pid <= 0) break;
    if (pid == main_pid_ && !has_ended_) OnMainEnded(wait_status);
  }
}

void Supervisor::OnMainEnded(int wait_status) {
  has_ended_ = true;
  wait_status_ = wait_status;
  // What the child said last: that it runs, or why not.
  while (status_) {
    const size_t before = status_text_.size();
    OnStatus();
    if (status_ && status_text_.size() == before) status_.Reset();
  }
  const bool installed = phase_ == Phase::kInstalling && wait_status == 0 && !stop_wanted_;
  if (installed) {
    out_.Drain();
    err_.Drain();
    const Status started = StartProgram();
    if (started) return;
    never_started_ = started.error().message;
    return BeginEnding(kLeftoverGrace);  // the installer may have left processes behind
  }
  if (phase_ != Phase::kRunning && !stop_wanted_) {
    never_started_ = status_text_;
    if (never_started_.empty()) {
      never_started_ =
          fmt::format("{} ended with status {}. {}",
                      phase_ == Phase::kInstalling ? "the installation of the job's Python packages"
                                                   : "the process that was to become the program",
                      ExitStatus(wait_status), ExitDetail(wait_status, err_.tail()));
    }
  }
  if (!stop_wanted_) BeginEnding(kLeftoverGrace);
}

void Supervisor::Stop() {
  if (stop_wanted_ || has_ended_) return;
  stop_wanted_ = true;
  const auto grace = spec_.has_grace_period()
                         ? milliseconds(TimeUtil::DurationToMilliseconds(spec_.grace_period()))
                         : kDefaultGrace;
  BeginEnding(grace);
}

void Supervisor::BeginEnding(milliseconds grace) {
  // Nothing is below the agent: the usual end, without a look at all processes of the machine.
  Reap();
  if (tree_is_empty_) return;
  SignalDescendants(SIGTERM);
  kill_at_ = SteadyClock::now() + std::max(grace, milliseconds(0));
}

// Again and again, since processes may be forking meanwhile; ever more slowly, since some cannot be
// killed for a while (a disk or network that hangs).
void Supervisor::KillRound() {
  cgroups_.Kill();
  SignalDescendants(SIGKILL);
  Reap();
  kill_at_ = SteadyClock::now() + kill_interval_;
  kill_interval_ = std::min(2 * kill_interval_, kKillIntervalMax);
}

void Supervisor::CollectRest() {
  out_.Drain();
  err_.Drain();
  collector_.Finish();
  log_.Finish();
  reporter_.SetLogSize(log_.size_bytes());
}

Exited Supervisor::MakeExited() const {
  Exited exited;
  exited.set_log_dropped_bytes(log_.dropped_bytes());
  *exited.mutable_end_time() = ToTimestamp(clock_.Now());
  if (start_time_) *exited.mutable_start_time() = ToTimestamp(*start_time_);
  if (!never_started_.empty()) {
    exited.set_cause(Exited::NEVER_STARTED);
    exited.set_status(kNotStartedCode);
    exited.set_detail(FitDetail(never_started_));
    return exited;
  }
  exited.set_cause(stop_wanted_ ? Exited::STOPPED : Exited::EXITED);
  exited.set_status(ExitStatus(wait_status_));
  if (exited.status() == 0) return exited;
  exited.set_detail(ExitDetail(wait_status_, err_.tail()));
  if (!stop_wanted_ && cgroups_.OutOfMemoryKills() > 0) {
    exited.set_cause(Exited::OUT_OF_MEMORY);
    exited.set_status(128 + SIGKILL);
    exited.set_detail(OutOfMemoryDetail(spec_.isolation().memory_limit_bytes()));
  }
  return exited;
}

void Supervisor::RemoveCgroups() {
  const auto deadline = SteadyClock::now() + kCgroupRemovalLimit;
  milliseconds pause(1);
  while (!cgroups_.TryRemove() && SteadyClock::now() < deadline) {
    // Ended processes stay in their cgroup for a moment.
    const timespec time{0, pause.count() * 1'000'000};
    ::nanosleep(&time, nullptr);
    pause = std::min(2 * pause, milliseconds(50));
  }
}

Status Supervisor::Report() {
  muster::v1::ReportRequest report = Identity(spec_);
  *report.mutable_exited() = MakeExited();
  RemoveCgroups();
  ::rmdir((files_.directory() / "view").c_str());
  const Status written = files_.WriteReport(report);
  if (!written) LogError("{}", written.error().message);
  const bool taken = reporter_.Exited(report.exited(), kReportLimit);
  return taken ? Status() : written;
}

}  // namespace muster::agent
