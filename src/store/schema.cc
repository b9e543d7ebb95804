#include "store/schema.h"

#include <cstdint>

namespace muster::store {

namespace {

// "mstr": tells our files from other programs' databases.
constexpr int64_t kApplicationId = 0x6d737472;

// Times are microseconds since 1970. What lists filter by has columns of its own; the rest is in
// the serialized messages. labels repeats its resource's collection, create_time and name, none of
// which ever changes, so that a list by label can walk one index.
constexpr const char* kTables = R"sql(
CREATE TABLE collections (
  id INTEGER PRIMARY KEY,
  parent TEXT NOT NULL,
  kind TEXT NOT NULL,
  UNIQUE (parent, kind)
);

CREATE TABLE resources (
  id INTEGER PRIMARY KEY,
  collection INTEGER NOT NULL REFERENCES collections (id),
  name TEXT NOT NULL UNIQUE,
  display_name TEXT NOT NULL,
  state INTEGER NOT NULL,
  create_time INTEGER NOT NULL,
  update_time INTEGER NOT NULL,
  body BLOB NOT NULL
);
CREATE INDEX resources_by_time
  ON resources (collection, create_time DESC, name DESC, state, display_name, update_time);
CREATE INDEX resources_by_state ON resources (collection, state, create_time DESC, name DESC);

CREATE TABLE labels (
  resource INTEGER NOT NULL REFERENCES resources (id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  collection INTEGER NOT NULL,
  create_time INTEGER NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (resource, key)
) WITHOUT ROWID;
CREATE INDEX labels_by_value ON labels (collection, key, value, create_time DESC, name DESC);
CREATE INDEX labels_by_key ON labels (collection, key, create_time DESC, name DESC);

CREATE TABLE jobs (
  id INTEGER PRIMARY KEY,
  uid TEXT NOT NULL UNIQUE,
  resource INTEGER NOT NULL UNIQUE REFERENCES resources (id) ON DELETE CASCADE,
  lifecycle BLOB NOT NULL,
  "grant" BLOB NOT NULL
);

CREATE TABLE attempts (
  job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  pool INTEGER NOT NULL,
  replica INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  view BLOB NOT NULL,
  launch BLOB NOT NULL,
  PRIMARY KEY (job, pool, replica, attempt)
);

CREATE TABLE events (
  job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  sequence INTEGER NOT NULL,
  time INTEGER NOT NULL,
  is_error INTEGER NOT NULL,
  text BLOB NOT NULL,
  PRIMARY KEY (job, sequence)
) WITHOUT ROWID;

CREATE TABLE operations (
  name TEXT PRIMARY KEY,
  body BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE reserve (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  bytes BLOB NOT NULL
);
)sql";

constexpr int64_t kReserveBytes = int64_t{2} << 20;

constexpr const char* kMigrations[] = {kTables};

Result<int64_t> Pragma(Database& database, std::string_view name) {
  MUSTER_ASSIGN(Statement statement, database.Query(fmt::format("PRAGMA {}", name)));
  MUSTER_ASSIGN(const bool has_row, statement.Step());
  return has_row ? statement.Int(0) : 0;
}

}  // namespace

std::span<const char* const> Migrations() { return kMigrations; }

Status Migrate(Database& database, std::span<const char* const> migrations) {
  MUSTER_ASSIGN(const int64_t application, Pragma(database, "application_id"));
  MUSTER_ASSIGN(const int64_t version, Pragma(database, "user_version"));
  MUSTER_ASSIGN(const int64_t schema, Pragma(database, "schema_version"));
  const bool is_new = application == 0 && version == 0 && schema == 0;
  if (!is_new && application != kApplicationId) {
    return Fail(Code::kFailedPrecondition,
                "{} is a database of another program; choose another data directory",
                database.file());
  }
  if (version > int64_t(migrations.size())) {
    return Fail(Code::kFailedPrecondition,
                "{} was written by a newer version of Muster (its format is {}, this version knows "
                "{}); install that version, or choose another data directory",
                database.file(), version, migrations.size());
  }
  for (size_t next = size_t(version); next < migrations.size(); ++next) {
    MUSTER_TRY(database.Execute("BEGIN IMMEDIATE"));
    Status done = database.Execute(migrations[next]);
    if (done) {
      done = database.Execute(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}",
                                          kApplicationId, next + 1));
    }
    if (done) done = database.Execute("COMMIT");
    if (!done) {
      if (database.InTransaction()) database.Rollback();
      return Fail(done.error().code, "{}: bringing it to format {} failed: {}", database.file(),
                  next + 1, done.error().message);
    }
  }
  return {};
}

Status FillReserve(Database& database) {
  MUSTER_TRY(database.Run("INSERT OR IGNORE INTO reserve (id, bytes) VALUES (1, zeroblob(?))",
                          kReserveBytes));
  return database.Execute("PRAGMA wal_checkpoint");  // into the file: that is where room is needed
}

Status GiveUpReserve(Database& database) { return database.Run("DELETE FROM reserve"); }

}  // namespace muster::store
