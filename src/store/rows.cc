#include "store/rows.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "store/filter.h"
#include "store/filter_sql.h"
#include "store/page_token.h"

namespace muster::store {

namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

std::unexpected<Error> FailNotFound(std::string_view name) {
  return Fail(Code::kNotFound, "{} does not exist", name);
}

// The first column of the only row; `missing` where there is none.
Result<int64_t> IntOr(Statement statement, int64_t missing) {
  MUSTER_ASSIGN(const bool has_row, statement.Step());
  return has_row ? statement.Int(0) : missing;
}

Result<int64_t> FindCollection(Database& database, const std::string& parent,
                               const std::string& kind) {
  MUSTER_ASSIGN(Statement find,
                database.Query("SELECT id FROM collections WHERE parent = ? AND kind = ?",
                               std::string_view(parent), std::string_view(kind)));
  return IntOr(std::move(find), 0);
}

Result<int64_t> FindOrMakeCollection(Database& database, const std::string& parent,
                                     const std::string& kind) {
  MUSTER_ASSIGN(const int64_t found, FindCollection(database, parent, kind));
  if (found != 0) return found;
  MUSTER_TRY(database.Run("INSERT INTO collections (parent, kind) VALUES (?, ?)",
                          std::string_view(parent), std::string_view(kind)));
  return database.LastInsertedRow();
}

Result<Labels> ReadLabels(Database& database, int64_t resource) {
  Labels labels;
  MUSTER_ASSIGN(
      Statement rows,
      database.Query("SELECT key, value FROM labels WHERE resource = ? ORDER BY key", resource));
  for (;;) {
    MUSTER_ASSIGN(const bool has_row, rows.Step());
    if (!has_row) return labels;
    labels.emplace_back(rows.Text(0), rows.Text(1));
  }
}

Status WriteLabels(Database& database, int64_t id, int64_t collection, const Resource& resource) {
  MUSTER_TRY(database.Run("DELETE FROM labels WHERE resource = ?", id));
  for (const auto& [key, value] : resource.labels) {
    MUSTER_TRY(database.Run(
        "INSERT OR REPLACE INTO labels (resource, key, value, collection, create_time, name)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        id, std::string_view(key), std::string_view(value), collection,
        ToMicros(resource.create_time), std::string_view(resource.name)));
  }
  return {};
}

Result<int64_t> InsertResource(Database& database, const Resource& resource) {
  MUSTER_ASSIGN(const int64_t collection,
                FindOrMakeCollection(database, resource.parent, resource.kind));
  const Status inserted = database.Run(
      "INSERT INTO resources"
      " (collection, name, display_name, state, create_time, update_time, body)"
      " VALUES (?, ?, ?, ?, ?, ?, ?)",
      collection, std::string_view(resource.name), std::string_view(resource.display_name),
      resource.state, ToMicros(resource.create_time), ToMicros(resource.update_time),
      Blob{resource.body});
  if (!inserted && inserted.error().code == Code::kAlreadyExists) {
    return Fail(Code::kAlreadyExists, "{} already exists", resource.name);
  }
  MUSTER_TRY(inserted);
  const int64_t id = database.LastInsertedRow();
  MUSTER_TRY(WriteLabels(database, id, collection, resource));
  return id;
}

// What a list is ordered by stays as it was: create_time, like the name, never changes.
Status UpdateResource(Database& database, int64_t id, const Resource& resource) {
  MUSTER_TRY(database.Run(
      "UPDATE resources SET display_name = ?, state = ?, update_time = ?, body = ? WHERE id = ?",
      std::string_view(resource.display_name), resource.state, ToMicros(resource.update_time),
      Blob{resource.body}, id));
  Labels wanted = resource.labels;
  std::ranges::sort(wanted);
  MUSTER_ASSIGN(const Labels present, ReadLabels(database, id));
  if (wanted == present) return {};
  MUSTER_ASSIGN(Statement find,
                database.Query("SELECT collection, create_time FROM resources WHERE id = ?", id));
  MUSTER_ASSIGN(const bool has_row, find.Step());
  MUSTER_CHECK(has_row);
  Resource stored = resource;
  stored.create_time = FromMicros(find.Int(1));
  return WriteLabels(database, id, find.Int(0), stored);
}

Status WriteAttempts(Database& database, int64_t job, const JobChange& change) {
  for (const AttemptRecord& attempt : change.attempts) {
    MUSTER_TRY(
        database.Run("INSERT OR REPLACE INTO attempts (job, pool, replica, attempt, view, launch)"
                     " VALUES (?, ?, ?, ?, ?, ?)",
                     job, attempt.pool, attempt.index, attempt.attempt, Blob{attempt.view},
                     Blob{attempt.launch}));
  }
  return {};
}

Status AppendEvents(Database& database, int64_t job, const JobChange& change) {
  if (change.events.empty()) return {};
  MUSTER_ASSIGN(Statement last,
                database.Query("SELECT max(sequence) FROM events WHERE job = ?", job));
  MUSTER_ASSIGN(int64_t sequence, IntOr(std::move(last), 0));
  for (const EventRecord& event : change.events) {
    MUSTER_TRY(database.Run(
        "INSERT INTO events (job, sequence, time, is_error, text) VALUES (?, ?, ?, ?, ?)", job,
        ++sequence, ToMicros(event.time), int(event.is_error), Blob{event.text}));
  }
  return {};
}

// Columns as in ListSql().
Resource ResourceOf(const Statement& row, std::string kind, std::string parent) {
  return Resource{.kind = std::move(kind),
                  .name = row.Text(1),
                  .parent = std::move(parent),
                  .display_name = row.Text(2),
                  .state = int(row.Int(3)),
                  .create_time = FromMicros(row.Int(4)),
                  .update_time = FromMicros(row.Int(5)),
                  .labels = {},
                  .body = row.Text(6)};
}

JobRecord JobOf(const Statement& row) {
  return JobRecord{.job_uid = row.Text(0),
                   .resource_name = row.Text(1),
                   .lifecycle = row.Text(2),
                   .grant = row.Text(3)};
}

constexpr int kPageSizeDefault = 100;
constexpr int kPageSizeMax = 1000;
// A page of large jobs ends early rather than take all memory.
constexpr size_t kPageBytesMax = size_t{16} << 20;

}  // namespace

Status InsertJob(Database& database, const JobChange& change) {
  MUSTER_CHECK(change.resource.has_value());
  MUSTER_CHECK(change.resource->name == change.job.resource_name);
  MUSTER_ASSIGN(const int64_t resource, InsertResource(database, *change.resource));
  const Status inserted =
      database.Run("INSERT INTO jobs (uid, resource, lifecycle, \"grant\") VALUES (?, ?, ?, ?)",
                   std::string_view(change.job.job_uid), resource, Blob{change.job.lifecycle},
                   Blob{change.job.grant});
  if (!inserted && inserted.error().code == Code::kAlreadyExists) {
    return Fail(Code::kAlreadyExists, "A job with the uid {} already exists", change.job.job_uid);
  }
  MUSTER_TRY(inserted);
  const int64_t job = database.LastInsertedRow();
  MUSTER_TRY(WriteAttempts(database, job, change));
  return AppendEvents(database, job, change);
}

Status UpdateJob(Database& database, const JobChange& change) {
  MUSTER_ASSIGN(
      Statement find,
      database.Query("SELECT j.id, j.resource FROM jobs j"
                     " JOIN resources r ON r.id = j.resource WHERE j.uid = ? AND r.name = ?",
                     std::string_view(change.job.job_uid),
                     std::string_view(change.job.resource_name)));
  MUSTER_ASSIGN(const bool has_row, find.Step());
  if (!has_row) return FailNotFound(change.job.resource_name);
  const int64_t job = find.Int(0);
  const int64_t resource = find.Int(1);
  MUSTER_TRY(database.Run("UPDATE jobs SET lifecycle = ?, \"grant\" = ? WHERE id = ?",
                          Blob{change.job.lifecycle}, Blob{change.job.grant}, job));
  if (change.resource) {
    MUSTER_CHECK(change.resource->name == change.job.resource_name);
    MUSTER_TRY(UpdateResource(database, resource, *change.resource));
  }
  MUSTER_TRY(WriteAttempts(database, job, change));
  return AppendEvents(database, job, change);
}

Status DeleteResource(Database& database, const std::string& name) {
  MUSTER_TRY(database.Run("DELETE FROM resources WHERE name = ?", std::string_view(name)));
  if (database.ChangedRows() == 0) return FailNotFound(name);
  return {};
}

Status PutOperation(Database& database, const OperationRecord& operation) {
  return database.Run("INSERT OR REPLACE INTO operations (name, body) VALUES (?, ?)",
                      std::string_view(operation.name), Blob{operation.body});
}

Result<Resource> ReadResource(Database& database, const std::string& name) {
  MUSTER_ASSIGN(Statement row,
                database.Query("SELECT r.id, r.name, r.display_name, r.state, r.create_time,"
                               " r.update_time, r.body, c.kind, c.parent FROM resources r"
                               " JOIN collections c ON c.id = r.collection WHERE r.name = ?",
                               std::string_view(name)));
  MUSTER_ASSIGN(const bool has_row, row.Step());
  if (!has_row) return FailNotFound(name);
  Resource resource = ResourceOf(row, row.Text(7), row.Text(8));
  MUSTER_ASSIGN(resource.labels, ReadLabels(database, row.Int(0)));
  return resource;
}

Result<ListPage> ReadPage(Database& database, const ListQuery& query) {
  if (query.page_size < 0) {
    return Fail(Code::kInvalidArgument, "page_size: {} is negative; 0 means {}", query.page_size,
                kPageSizeDefault);
  }
  const int page_size =
      query.page_size == 0 ? kPageSizeDefault : std::min(query.page_size, kPageSizeMax);
  MUSTER_ASSIGN(const FilterNode filter, ParseFilter(query.filter, query.kind));
  std::optional<ListPosition> after;
  if (!query.page_token.empty()) {
    MUSTER_ASSIGN(after, ReadPageToken(query));
  }
  ListPage page;
  MUSTER_ASSIGN(const int64_t collection, FindCollection(database, query.parent, query.kind));
  if (collection == 0) return page;

  const SqlQuery sql = ListSql(collection, filter, after, page_size + 1);
  MUSTER_ASSIGN(Statement rows, database.Prepare(sql.text));
  for (const SqlValue& value : sql.values) {
    if (const int64_t* number = std::get_if<int64_t>(&value)) rows.Bind(*number);
    if (const std::string* text = std::get_if<std::string>(&value)) {
      rows.Bind(std::string_view(*text));
    }
  }
  size_t bytes = 0;
  for (;;) {
    MUSTER_ASSIGN(const bool has_row, rows.Step());
    if (!has_row) return page;
    if (page.resources.size() == size_t(page_size) || bytes > kPageBytesMax) {
      const Resource& last = page.resources.back();
      page.next_page_token = MakePageToken(
          query, {.create_time_micros = ToMicros(last.create_time), .name = last.name});
      return page;
    }
    Resource& resource = page.resources.emplace_back(ResourceOf(rows, query.kind, query.parent));
    MUSTER_ASSIGN(resource.labels, ReadLabels(database, rows.Int(0)));
    bytes += resource.body.size();
  }
}

Result<JobRecord> ReadJob(Database& database, const std::string& resource_name) {
  MUSTER_ASSIGN(Statement row,
                database.Query("SELECT j.uid, r.name, j.lifecycle, j.\"grant\" FROM resources r"
                               " JOIN jobs j ON j.resource = r.id WHERE r.name = ?",
                               std::string_view(resource_name)));
  MUSTER_ASSIGN(const bool has_row, row.Step());
  if (!has_row) return FailNotFound(resource_name);
  return JobOf(row);
}

Result<std::vector<JobRecord>> ReadActiveJobs(Database& database) {
  // SUCCEEDED, FAILED, CANCELLED, EXPIRED and PARTIALLY_SUCCEEDED are terminal; the others are
  // named, so that one index finds them however many jobs have ended.
  MUSTER_ASSIGN(
      Statement rows,
      database.Query("SELECT j.uid, r.name, j.lifecycle, j.\"grant\""
                     " FROM collections c CROSS JOIN resources r INDEXED BY resources_by_state"
                     " ON r.collection = c.id AND r.state IN (0, 1, 2, 3, 6, 8, 10)"
                     " JOIN jobs j ON j.resource = r.id ORDER BY r.create_time, r.name"));
  std::vector<JobRecord> jobs;
  for (;;) {
    MUSTER_ASSIGN(const bool has_row, rows.Step());
    if (!has_row) return jobs;
    jobs.push_back(JobOf(rows));
  }
}

Result<std::vector<AttemptRecord>> ReadAttempts(Database& database, const std::string& job_uid) {
  MUSTER_ASSIGN(Statement rows,
                database.Query("SELECT a.pool, a.replica, a.attempt, a.view, a.launch FROM jobs j"
                               " JOIN attempts a ON a.job = j.id WHERE j.uid = ?"
                               " ORDER BY a.pool, a.replica, a.attempt",
                               std::string_view(job_uid)));
  std::vector<AttemptRecord> attempts;
  for (;;) {
    MUSTER_ASSIGN(const bool has_row, rows.Step());
    if (!has_row) return attempts;
    attempts.push_back(AttemptRecord{.job_uid = job_uid,
                                     .pool = int(rows.Int(0)),
                                     .index = int(rows.Int(1)),
                                     .attempt = int(rows.Int(2)),
                                     .view = rows.Text(3),
                                     .launch = rows.Text(4)});
  }
}

Result<std::vector<EventRecord>> ReadEvents(Database& database, const std::string& job_uid,
                                            int64_t after, int limit) {
  MUSTER_ASSIGN(Statement rows,
                database.Query("SELECT e.sequence, e.time, e.is_error, e.text FROM jobs j"
                               " JOIN events e ON e.job = j.id WHERE j.uid = ? AND e.sequence > ?"
                               " ORDER BY e.sequence LIMIT ?",
                               std::string_view(job_uid), after, std::max(limit, 0)));
  std::vector<EventRecord> events;
  for (;;) {
    MUSTER_ASSIGN(const bool has_row, rows.Step());
    if (!has_row) return events;
    events.push_back(EventRecord{.job_uid = job_uid,
                                 .sequence = rows.Int(0),
                                 .time = FromMicros(rows.Int(1)),
                                 .is_error = rows.Int(2) != 0,
                                 .text = rows.Text(3)});
  }
}

Result<OperationRecord> ReadOperation(Database& database, const std::string& name) {
  MUSTER_ASSIGN(Statement row, database.Query("SELECT body FROM operations WHERE name = ?",
                                              std::string_view(name)));
  MUSTER_ASSIGN(const bool has_row, row.Step());
  if (!has_row) return FailNotFound(name);
  return OperationRecord{.name = name, .body = row.Text(0)};
}

Result<int64_t> CountResources(Database& database) {
  MUSTER_ASSIGN(Statement count, database.Query("SELECT count(*) FROM resources"));
  return IntOr(std::move(count), 0);
}

}  // namespace muster::store
