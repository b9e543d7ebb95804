// Jobs, their attempts and events, and operations, in one SQLite file (WAL, synchronous=FULL).
//
// Thread-safe. A write returns once it is durable: one writer thread commits whatever waits in one
// transaction (group commit). Reads use connections of their own and see all acknowledged writes.
//
// When the disk is full: the writer removes its ballast file (some MB laid aside at Open) and tries
// again, so that states can still be recorded; new jobs are refused with RESOURCE_EXHAUSTED until
// there is room for the ballast again.
//
// The store expects to be the file's only user: who owns the data directory keeps others out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/time.h"

namespace muster::store {

// A stored API resource. `kind` is its collection: "customJobs"; later "trainingPipelines", ….
struct Resource {
  std::string kind;
  std::string name;    // projects/p/locations/l/customJobs/123
  std::string parent;  // projects/p/locations/l
  std::string display_name;
  int state = 0;  // google.cloud.aiplatform.v1.JobState
  Time create_time{};
  Time update_time{};
  std::vector<std::pair<std::string, std::string>> labels;
  std::string body;  // the serialized message, complete
};

// What only Muster knows of a job, beside its Resource.
struct JobRecord {
  std::string job_uid;  // the name of its directory
  std::string resource_name;
  std::string lifecycle;  // job::Lifecycle::Save()
  std::string grant;      // the engine's grant as JSON; empty before admission
};

struct AttemptRecord {
  std::string job_uid;
  int pool = 0;
  int index = 0;
  int attempt = 0;
  std::string view;    // serialized muster.v1.AttemptView
  std::string launch;  // serialized muster.v1.LaunchSpec; kept while the attempt may run
};

// A line of the job's own log, task "service".
struct EventRecord {
  std::string job_uid;
  int64_t sequence = 0;  // from 1 within the job; chosen by the store
  Time time{};
  bool is_error = false;
  std::string text;
};

// What one step of a job changes; committed whole or not at all.
struct JobChange {
  // Replaces the one of the same name, but for create_time, which never changes.
  std::optional<Resource> resource;
  JobRecord job;                        // replaces
  std::vector<AttemptRecord> attempts;  // each inserted or replaced
  std::vector<EventRecord> events;      // appended; their sequence is ignored
};

struct OperationRecord {
  std::string name;  // projects/p/locations/l/customJobs/1/operations/2
  std::string body;  // serialized google.longrunning.Operation
};

struct ListQuery {
  std::string kind;
  std::string parent;
  std::string filter;      // filter.h tells the language
  int page_size = 0;       // 0: 100; beyond 1000: 1000; negative: INVALID_ARGUMENT
  std::string page_token;  // from the previous page of the same query, whatever its page_size
};

struct ListPage {
  // Newest first: by create_time, then name, both descending. Labels are in the order of their
  // keys. May hold fewer than asked for, if they are large, before the last page too.
  std::vector<Resource> resources;
  std::string next_page_token;  // empty on the last page
};

class Store {
 public:
  // Creates or migrates the file. FAILED_PRECONDITION if a newer version wrote it; DATA_LOSS if it
  // is not a database.
  static Result<std::unique_ptr<Store>> Open(const std::filesystem::path& file);
  ~Store();

  // ALREADY_EXISTS if the resource's name or the job's uid is taken. Needs change.resource.
  Status CreateJob(const JobChange& change);
  // NOT_FOUND if the job is not there (any more): a job once deleted stays so.
  Status SaveJob(const JobChange& change);
  // Removes the resource with all that hangs on it, and records the operation that did it.
  // NOT_FOUND if it is not there.
  Status DeleteJob(const std::string& resource_name, const OperationRecord& operation);

  Result<Resource> GetResource(const std::string& name) const;  // NOT_FOUND names it
  Result<ListPage> ListResources(
      const ListQuery& query) const;  // INVALID_ARGUMENT explains a filter
  Result<JobRecord> GetJob(const std::string& resource_name) const;
  // Jobs whose state is not terminal, oldest first: what to take up again after a restart.
  Result<std::vector<JobRecord>> ActiveJobs() const;
  // Ordered by pool, index and attempt; none for a job that does not exist.
  Result<std::vector<AttemptRecord>> Attempts(const std::string& job_uid) const;
  // Events after a sequence number, oldest first.
  Result<std::vector<EventRecord>> Events(const std::string& job_uid, int64_t after,
                                          int limit) const;
  Result<OperationRecord> GetOperation(const std::string& name) const;

  struct Counts {
    int64_t resources = 0;
    int64_t commits = 0;
    int64_t written = 0;  // writes in them
  };
  Counts counts() const;

 private:
  Store();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::store
