#include "store/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "store/filter.h"
#include "store/filter_sql.h"
#include "store/test_jobs.h"

namespace muster::store {
namespace {

using testing::HasSubstr;

class SchemaTest : public StoreTest {
 protected:
  std::unique_ptr<Database> OpenDatabase() {
    auto database = Database::Open(file_, Database::Mode::kWriter);
    EXPECT_TRUE(database) << database.error().message;
    return std::move(*database);
  }

  static int64_t IntOf(Database& database, std::string_view sql) {
    auto statement = database.Query(sql);
    EXPECT_TRUE(statement) << statement.error().message;
    EXPECT_TRUE(*statement->Step());
    return statement->Int(0);
  }
};

constexpr const char* kFirst = "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1);";
constexpr const char* kSecond = "ALTER TABLE t ADD COLUMN b INTEGER DEFAULT 7;";
constexpr const char* kBroken = "UPDATE t SET a = 2; SELECT * FROM nowhere;";

TEST_F(SchemaTest, CarriesOutWhatTheFileLacks) {
  const auto database = OpenDatabase();
  const std::array<const char*, 2> both = {kFirst, kSecond};
  ASSERT_TRUE(Migrate(*database, std::span(both).first(1)));
  EXPECT_EQ(IntOf(*database, "PRAGMA user_version"), 1);
  ASSERT_TRUE(Migrate(*database, both));
  EXPECT_EQ(IntOf(*database, "PRAGMA user_version"), 2);
  EXPECT_EQ(IntOf(*database, "SELECT a + b FROM t"), 8);
  ASSERT_TRUE(Migrate(*database, both));  // nothing is done twice
  EXPECT_EQ(IntOf(*database, "SELECT count(*) FROM t"), 1);
}

TEST_F(SchemaTest, AFailedMigrationLeavesTheFileAsItWas) {
  const auto database = OpenDatabase();
  const std::array<const char*, 2> broken = {kFirst, kBroken};
  const Status status = Migrate(*database, broken);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("to format 2 failed"));
  EXPECT_FALSE(database->InTransaction());
  EXPECT_EQ(IntOf(*database, "PRAGMA user_version"), 1);
  EXPECT_EQ(IntOf(*database, "SELECT a FROM t"), 1);
}

TEST_F(SchemaTest, RefusesNewerFiles) {
  {
    const auto database = OpenDatabase();
    ASSERT_TRUE(Migrate(*database, Migrations()));
    ASSERT_TRUE(database->Execute("PRAGMA user_version = 99"));
  }
  const auto opened = Store::Open(file_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(opened.error().message, HasSubstr("newer version of Muster (its format is 99"));
}

TEST_F(SchemaTest, RefusesOtherProgramsFiles) {
  ASSERT_TRUE(OpenDatabase()->Execute("CREATE TABLE theirs (x)"));
  const auto opened = Store::Open(file_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(opened.error().message, HasSubstr("another program"));
  EXPECT_EQ(IntOf(*OpenDatabase(), "SELECT count(*) FROM sqlite_schema"), 1);
}

// What durability and integrity rest on.
TEST_F(SchemaTest, ConnectionsAreSetUp) {
  Open();
  const auto database = OpenDatabase();
  EXPECT_EQ(IntOf(*database, "PRAGMA synchronous"), 2);  // FULL
  EXPECT_EQ(IntOf(*database, "PRAGMA foreign_keys"), 1);
  EXPECT_EQ(IntOf(*database, "SELECT journal_mode = 'wal' FROM pragma_journal_mode"), 1);
  const auto reader = Database::Open(file_, Database::Mode::kReader);
  ASSERT_TRUE(reader);
  EXPECT_FALSE((*reader)->Execute("DELETE FROM resources"));
}

// Lists walk an index in order; none sorts, none scans the table.
TEST_F(SchemaTest, ListsNeitherSortNorScan) {
  Open();
  const auto database = OpenDatabase();
  for (const std::string text :
       {"", "state=JOB_STATE_FAILED", "labels.k=v", "labels:k", "display_name:x OR labels:k",
        "labels.k=v AND state=JOB_STATE_FAILED", "create_time>2026-11-20T00:00:00Z"}) {
    for (const bool first_page : {true, false}) {
      const auto filter = ParseFilter(text, "customJobs");
      ASSERT_TRUE(filter);
      const SqlQuery query =
          ListSql(1, *filter, first_page ? std::nullopt : std::optional(ListPosition{5, "x"}), 101);
      auto plan = database->Query("EXPLAIN QUERY PLAN " + query.text);
      ASSERT_TRUE(plan) << plan.error().message;
      std::string steps;
      while (*plan->Step()) steps += plan->Text(3) + "\n";
      EXPECT_THAT(steps, testing::Not(HasSubstr("SCAN"))) << text;
      EXPECT_THAT(steps, testing::Not(HasSubstr("TEMP B-TREE"))) << text;
      if (!first_page) {
        EXPECT_THAT(steps, HasSubstr("(create_time,name)<(?,?)")) << text;
      }
    }
  }
}

}  // namespace
}  // namespace muster::store
