// musterd: the control plane and its one port.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "attempt/files.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "bucket/bucket.h"
#include "config/config.h"
#include "config/engine_options.h"
#include "control/controller.h"
#include "engine/local/local_engine.h"
#include "server/server.h"
#include "store/store.h"

namespace {

namespace fs = std::filesystem;
using muster::Code;
using muster::Fail;
using muster::Result;
using muster::Status;

struct Flags {
  std::string data_directory;
  std::string listen = "127.0.0.1:8080";
  std::string config_file;
};

// The same default as the command line's (src/cli/endpoint.h).
std::string DefaultDataDirectory() {
  if (const char* directory = std::getenv("MUSTER_DATA_DIR"); directory != nullptr && *directory) {
    return directory;
  }
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state == '/') {
    return std::string(state) + "/muster";
  }
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr ? home : "") + "/.local/state/muster";
}

// One musterd serves a data directory; the lock ends with the process, however that ends.
Result<muster::UniqueFd> LockDirectory(const fs::path& directory) {
  const fs::path file = directory / "lock";
  muster::UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return muster::FailErrno(errno, file.string());
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return Fail(Code::kFailedPrecondition,
                "another musterd serves {} already (see {}); give this one its own --data-dir",
                directory.string(), (directory / "musterd.json").string());
  }
  return fd;
}

fs::path AgentBinary() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path() / "muster-agent";
}

// A replica takes a few descriptors, and the usual soft limit of 1024 is for programs that
// select().
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Whoever reaches the port can run programs as this user.
void WarnIfReachable(const std::string& address) {
  if (address.starts_with("127.") || address.starts_with("[::1]")) return;
  muster::LogWarning(
      "{} may be reached from other machines, and musterd asks for no password: whoever reaches it "
      "can run programs as this user. Listen on 127.0.0.1 unless the network is trusted.",
      address);
}

Status Run(const Flags& flags) {
  using namespace muster;
  RaiseDescriptorLimit();
  config::Config config;
  if (!flags.config_file.empty()) {
    MUSTER_ASSIGN(config, config::LoadConfig(flags.config_file));
  }
  MUSTER_TRY(MakeDirectories(flags.data_directory));
  const fs::path data_directory = fs::canonical(flags.data_directory);
  MUSTER_ASSIGN(const UniqueFd lock, LockDirectory(data_directory));
  const fs::path endpoint_file = data_directory / "musterd.json";

  const fs::path buckets_root =
      config.buckets_root.empty() ? data_directory / "buckets" : config.buckets_root;
  MUSTER_TRY(MakeDirectories(buckets_root));
  for (const auto& [name, directory] : config.buckets) {
    MUSTER_TRY(bucket::CheckBucketName(name));
    MUSTER_TRY(MakeDirectories(buckets_root / name));
  }
  const bucket::BucketDirectories buckets(buckets_root, config.buckets);
  MUSTER_ASSIGN(const auto store, store::Store::Open(data_directory / "muster.db"));
  const SystemClock clock;
  boost::asio::io_context loop(1);

  auto machines = job::MachineCatalog::Builtin();
  for (const job::MachineType& type : config.machine_types) machines.Add(type);
  const char* path = std::getenv("PATH");
  control::ImageMap images(config.images, path != nullptr ? path : "/usr/bin:/bin");
  for (const std::string& problem : images.Problems()) LogWarning("{}", problem);
  control::LaunchSite site{.data_directory = data_directory,
                           .endpoint_file = endpoint_file,
                           .inherited = control::InheritedEnvironment(environ),
                           .grace_period = config.grace_period,
                           .boot_id = attempt::ThisBootId().value_or(""),
                           .gcs_mount = false};
  const engine::LocalEngineOptions engine_options =
      config::EngineOptions(config, data_directory, buckets_root, AgentBinary());
  site.gcs_mount = engine::CanMount(engine_options);
  control::Controller controller(loop, *store, buckets, clock,
                                 {site, std::move(images), std::move(machines)});
  engine::LocalEngine engine(loop, controller, engine_options, clock);
  for (const std::string& line : engine.Describe()) LogInfo("{}", line);
  controller.Attach(engine);
  MUSTER_ASSIGN(const int resumed, controller.Recover());
  if (resumed > 0) LogInfo("{} jobs are taken up again", resumed);

  MUSTER_ASSIGN(
      const auto server,
      server::Server::Start({.listen = flags.listen}, server::AllMethods(controller), controller));
  MUSTER_TRY(WriteFileAtomic(
      endpoint_file,
      nlohmann::json{{"address", server->address()}, {"pid", ::getpid()}}.dump() + "\n"));
  std::printf("musterd serves %s, data in %s\n", server->address().c_str(), data_directory.c_str());
  std::fflush(stdout);
  WarnIfReachable(server->address());

  // The server ends first, while the loop still answers the calls that wait for it.
  std::thread shutdown;
  boost::asio::signal_set signals(loop, SIGINT, SIGTERM);
  signals.async_wait([&](const boost::system::error_code& error, int) {
    if (error) return;
    ::unlink(endpoint_file.c_str());
    shutdown = std::thread([&] {
      server->Shutdown();
      loop.stop();
    });
  });
  loop.run();
  if (shutdown.joinable()) shutdown.join();
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  flags.data_directory = DefaultDataDirectory();
  CLI::App app("Runs Vertex AI custom-training jobs on this machine.", "musterd");
  app.set_version_flag("--version", "musterd 0.1.0");
  app.add_option("--data-dir", flags.data_directory, "Where jobs, logs and buckets are kept")
      ->capture_default_str();
  app.add_option("--listen", flags.listen, "HOST:PORT for gRPC and REST; port 0 picks a free one")
      ->capture_default_str();
  app.add_option("--config", flags.config_file, "YAML; docs/guides/configuration.md");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (Status run = Run(flags); !run) {
    std::fprintf(stderr, "musterd: %s\n", run.error().message.c_str());
    return 1;
  }
  return 0;
}
