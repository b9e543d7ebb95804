// One connection to an SQLite file, with its prepared statements. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace muster::store {

// Bytes that are bound as they are, not as text.
struct Blob {
  std::string_view bytes;
};

struct CachedStatement {
  sqlite3_stmt* statement = nullptr;
  bool in_use = false;
};

// A prepared statement on loan from its Database, which must outlive it. Errors while binding show
// in the first Step().
class Statement {
 public:
  Statement(sqlite3* connection, std::shared_ptr<CachedStatement> cached);
  Statement(Statement&&) = default;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  void Bind(int64_t value);
  void Bind(int value) { Bind(int64_t(value)); }
  void Bind(std::string_view text);
  void Bind(Blob blob);

  // True: a row is there to read. False: done.
  Result<bool> Step();
  // For statements without rows.
  Status Run();

  int64_t Int(int column) const;
  std::string Text(int column) const;  // of blobs too

 private:
  sqlite3* const connection_;
  std::shared_ptr<CachedStatement> cached_;
  int next_parameter_ = 1;
  int bind_error_ = 0;
};

class Database {
 public:
  enum class Mode { kWriter, kReader };

  // In WAL mode, synchronous=FULL, foreign keys on. DATA_LOSS if the file is not a database.
  static Result<std::unique_ptr<Database>> Open(const std::filesystem::path& file, Mode mode);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // A statement with its question marks bound in order.
  template <typename... Values>
  Result<Statement> Query(std::string_view sql, const Values&... values) {
    MUSTER_ASSIGN(Statement statement, Prepare(sql));
    (statement.Bind(values), ...);
    return statement;
  }

  // Query and run.
  template <typename... Values>
  Status Run(std::string_view sql, const Values&... values) {
    MUSTER_ASSIGN(Statement statement, Query(sql, values...));
    return statement.Run();
  }

  // Several statements, none of them kept.
  Status Execute(const std::string& script);

  Result<Statement> Prepare(std::string_view sql);

  bool InTransaction() const;
  void Rollback();  // of a transaction that is there; it cannot fail but for what failed before
  int64_t ChangedRows() const;  // by the last INSERT, UPDATE or DELETE
  int64_t LastInsertedRow() const;
  const std::string& file() const { return file_; }

 private:
  Database(sqlite3* connection, std::string file);
  void DropIdleStatements();

  struct HashText : std::hash<std::string_view> {
    using is_transparent = void;
  };

  sqlite3* const connection_;
  const std::string file_;
  std::unordered_map<std::string, std::shared_ptr<CachedStatement>, HashText, std::equal_to<>>
      statements_;
};

// The statement SQLite refused, in our words. A full disk is RESOURCE_EXHAUSTED and nothing else
// is.
[[nodiscard]] std::unexpected<Error> FailSqlite(sqlite3* connection, int code);

}  // namespace muster::store
