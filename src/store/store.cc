#include "store/store.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/fd.h"
#include "base/log.h"
#include "store/ballast.h"
#include "store/database.h"
#include "store/reader_pool.h"
#include "store/rows.h"
#include "store/schema.h"
#include "store/writer.h"

namespace muster::store {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kBallastBytes = int64_t{8} << 20;
constexpr int kReaders = 4;

// The file's name is on the disk, not only its content.
Status SyncDirectoryOf(const fs::path& file) {
  const fs::path directory = file.has_parent_path() ? file.parent_path() : fs::path(".");
  UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return FailErrno(errno, directory.string());
  return {};
}

Result<std::unique_ptr<Database>> OpenForWriting(const fs::path& file) {
  MUSTER_ASSIGN(std::unique_ptr<Database> database, Database::Open(file, Database::Mode::kWriter));
  MUSTER_TRY(Migrate(*database, Migrations()));
  return database;
}

// Several queries that see one state of the database.
template <typename Read>
auto InOneView(Database& database, Read read) -> decltype(read()) {
  MUSTER_TRY(database.Run("BEGIN"));
  auto result = read();
  const Status ended = database.Run("COMMIT");
  if (result && !ended) return std::unexpected(ended.error());
  return result;
}

}  // namespace

struct Store::Impl {
  Impl(std::unique_ptr<Database> database, Ballast ballast, int64_t resources,
       std::vector<std::unique_ptr<Database>> connections)
      : readers(std::move(connections)),
        writer(std::move(database), std::move(ballast), resources) {}

  ReaderPool readers;
  Writer writer;
};

Store::Store() = default;
Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::Open(const fs::path& file) {
  Ballast ballast(file.string() + ".ballast", kBallastBytes);
  Result<std::unique_ptr<Database>> database = OpenForWriting(file);
  if (!database && database.error().code == Code::kResourceExhausted && ballast.Release()) {
    LogWarning("store: the disk is full, giving up the space laid aside: {}",
               database.error().message);
    database = OpenForWriting(file);
  }
  if (!database) return std::unexpected(database.error());
  MUSTER_TRY(SyncDirectoryOf(file));
  MUSTER_ASSIGN(const int64_t resources, CountResources(**database));
  std::vector<std::unique_ptr<Database>> readers;
  for (int i = 0; i < kReaders; ++i) {
    MUSTER_ASSIGN(std::unique_ptr<Database> reader, Database::Open(file, Database::Mode::kReader));
    readers.push_back(std::move(reader));
  }
  std::unique_ptr<Store> store(new Store());
  store->impl_ = std::make_unique<Impl>(std::move(*database), std::move(ballast), resources,
                                        std::move(readers));
  return store;
}

Status Store::CreateJob(const JobChange& change) {
  return impl_->writer.Submit(
      {.run = [&change](Database& database) { return InsertJob(database, change); },
       .is_new_job = true,
       .resources_changed = 1});
}

Status Store::SaveJob(const JobChange& change) {
  return impl_->writer.Submit(
      {.run = [&change](Database& database) { return UpdateJob(database, change); }});
}

Status Store::DeleteJob(const std::string& resource_name, const OperationRecord& operation) {
  const auto run = [&](Database& database) -> Status {
    MUSTER_TRY(DeleteResource(database, resource_name));
    return PutOperation(database, operation);
  };
  return impl_->writer.Submit({.run = run, .resources_changed = -1});
}

Result<Resource> Store::GetResource(const std::string& name) const {
  MUSTER_ASSIGN(const ReaderPool::Lease reader, impl_->readers.Borrow());
  return InOneView(*reader, [&] { return ReadResource(*reader, name); });
}

Result<ListPage> Store::ListResources(const ListQuery& query) const {
  MUSTER_ASSIGN(const ReaderPool::Lease reader, impl_->readers.Borrow());
  return InOneView(*reader, [&] { return ReadPage(*reader, query); });
}

Result<JobRecord> Store::GetJob(const std::string& resource_name) const {
  MUSTER_ASSIGN(const ReaderPool::Lease reader, impl_->readers.Borrow());
  return ReadJob(*reader, resource_name);
}

Result<std::vector<JobRecord>> Store::ActiveJobs() const {
  MUSTER_ASSIGN(const ReaderPool::Lease reader, impl_->readers.Borrow());
  return ReadActiveJobs(*reader);
}

Result<std::vector<AttemptRecord>> Store::Attempts(const std::string& job_uid) const {
  MUSTER_ASSIGN(const ReaderPool::Lease reader, impl_->readers.Borrow());
  return ReadAttempts(*reader, job_uid);
}

Result<std::vector<EventRecord>> Store::Events(const std::string& job_uid, int64_t after,
                                               int limit) const {
  MUSTER_ASSIGN(const ReaderPool::Lease reader, impl_->readers.Borrow());
  return ReadEvents(*reader, job_uid, after, limit);
}

Result<OperationRecord> Store::GetOperation(const std::string& name) const {
  MUSTER_ASSIGN(const ReaderPool::Lease reader, impl_->readers.Borrow());
  return ReadOperation(*reader, name);
}

Store::Counts Store::counts() const {
  const Writer::Counts counts = impl_->writer.counts();
  return {.resources = counts.resources, .commits = counts.commits, .written = counts.written};
}

}  // namespace muster::store
