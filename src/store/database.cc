#include "store/database.h"

#include <sqlite3.h>

#include <cerrno>
#include <utility>

#include "base/check.h"

namespace muster::store {

namespace {

constexpr int kBusyTimeoutMs = 10'000;
// Lists bring their own SQL; beyond this many statements the idle ones are dropped.
constexpr size_t kCachedStatementsMax = 64;

bool IsDiskFull(sqlite3* connection, int code) {
  if ((code & 0xff) == SQLITE_FULL) return true;
  if ((code & 0xff) != SQLITE_IOERR && (code & 0xff) != SQLITE_CANTOPEN) return false;
  const int error_number = sqlite3_system_errno(connection);
  return error_number == ENOSPC || error_number == EDQUOT || code == SQLITE_IOERR_SHMSIZE;
}

Code CodeOf(sqlite3* connection, int code) {
  if (IsDiskFull(connection, code)) return Code::kResourceExhausted;
  if (code == SQLITE_CONSTRAINT_UNIQUE || code == SQLITE_CONSTRAINT_PRIMARYKEY) {
    return Code::kAlreadyExists;
  }
  switch (code & 0xff) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return Code::kDataLoss;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Code::kUnavailable;
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      return Code::kPermissionDenied;
    case SQLITE_TOOBIG:
      return Code::kInvalidArgument;
    default:
      return Code::kInternal;
  }
}

}  // namespace

std::unexpected<Error> FailSqlite(sqlite3* connection, int code) {
  const char* file = connection != nullptr ? sqlite3_db_filename(connection, "main") : nullptr;
  const char* why = connection != nullptr && sqlite3_extended_errcode(connection) == code
                        ? sqlite3_errmsg(connection)
                        : sqlite3_errstr(code);
  return Fail(CodeOf(connection, code), "{}: {}", file != nullptr ? file : "database", why);
}

Statement::Statement(sqlite3* connection, std::shared_ptr<CachedStatement> cached)
    : connection_(connection), cached_(std::move(cached)) {
  MUSTER_CHECK(!cached_->in_use);
  cached_->in_use = true;
}

Statement::~Statement() {
  if (!cached_) return;  // moved from
  sqlite3_reset(cached_->statement);
  sqlite3_clear_bindings(cached_->statement);
  cached_->in_use = false;
}

void Statement::Bind(int64_t value) {
  const int code = sqlite3_bind_int64(cached_->statement, next_parameter_++, value);
  if (code != SQLITE_OK) bind_error_ = code;
}

void Statement::Bind(std::string_view text) {
  const int code = sqlite3_bind_text64(cached_->statement, next_parameter_++,
                                       text.data() == nullptr ? "" : text.data(), text.size(),
                                       SQLITE_TRANSIENT, SQLITE_UTF8);
  if (code != SQLITE_OK) bind_error_ = code;
}

void Statement::Bind(Blob blob) {
  // No pointer would bind NULL instead of an empty blob.
  const char* const data = blob.bytes.data() == nullptr ? "" : blob.bytes.data();
  const int code = sqlite3_bind_blob64(cached_->statement, next_parameter_++, data,
                                       blob.bytes.size(), SQLITE_TRANSIENT);
  if (code != SQLITE_OK) bind_error_ = code;
}

Result<bool> Statement::Step() {
  if (bind_error_ != 0) return FailSqlite(connection_, bind_error_);
  const int code = sqlite3_step(cached_->statement);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return FailSqlite(connection_, sqlite3_extended_errcode(connection_));
}

Status Statement::Run() {
  MUSTER_ASSIGN(const bool has_row, Step());
  MUSTER_CHECK(!has_row);
  return {};
}

int64_t Statement::Int(int column) const {
  return sqlite3_column_int64(cached_->statement, column);
}

std::string Statement::Text(int column) const {
  const void* const bytes = sqlite3_column_blob(cached_->statement, column);
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes),
          size_t(sqlite3_column_bytes(cached_->statement, column))};
}

Database::Database(sqlite3* connection, std::string file)
    : connection_(connection), file_(std::move(file)) {}

Database::~Database() {
  for (auto& [sql, cached] : statements_) {
    MUSTER_CHECK(!cached->in_use);
    sqlite3_finalize(cached->statement);
  }
  sqlite3_close(connection_);
}

Result<std::unique_ptr<Database>> Database::Open(const std::filesystem::path& file, Mode mode) {
  sqlite3* connection = nullptr;
  const int code =
      sqlite3_open_v2(file.c_str(), &connection,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<Database> database(new Database(connection, file.string()));
  if (code != SQLITE_OK) {
    const int error_number = connection != nullptr ? sqlite3_system_errno(connection) : 0;
    if (error_number != 0) return FailErrno(error_number, file.string());
    return FailSqlite(connection, code);
  }
  sqlite3_extended_result_codes(connection, 1);
  sqlite3_busy_timeout(connection, kBusyTimeoutMs);
  MUSTER_TRY(
      database->Execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                        "PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;"
                        "PRAGMA secure_delete = OFF; PRAGMA trusted_schema = OFF"));
  if (mode == Mode::kReader) MUSTER_TRY(database->Execute("PRAGMA query_only = ON"));
  return database;
}

Status Database::Execute(const std::string& script) {
  const int code = sqlite3_exec(connection_, script.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return FailSqlite(connection_, code);
  return {};
}

Result<Statement> Database::Prepare(std::string_view sql) {
  auto found = statements_.find(sql);
  if (found == statements_.end()) {
    if (statements_.size() >= kCachedStatementsMax) DropIdleStatements();
    sqlite3_stmt* statement = nullptr;
    const int code = sqlite3_prepare_v3(connection_, sql.data(), int(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (code != SQLITE_OK) return FailSqlite(connection_, code);
    auto cached = std::make_shared<CachedStatement>(CachedStatement{.statement = statement});
    found = statements_.emplace(std::string(sql), std::move(cached)).first;
  }
  return Statement(connection_, found->second);
}

void Database::DropIdleStatements() {
  std::erase_if(statements_, [](const auto& entry) {
    if (entry.second->in_use) return false;
    sqlite3_finalize(entry.second->statement);
    return true;
  });
}

bool Database::InTransaction() const { return sqlite3_get_autocommit(connection_) == 0; }

void Database::Rollback() {
  const Status undone = Run("ROLLBACK");
  MUSTER_CHECK(undone || !InTransaction());
}

int64_t Database::ChangedRows() const { return sqlite3_changes64(connection_); }

int64_t Database::LastInsertedRow() const { return sqlite3_last_insert_rowid(connection_); }

}  // namespace muster::store
