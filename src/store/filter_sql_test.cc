// The SQL of a filter against the filter evaluated by hand, on random jobs.
#include "store/filter_sql.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>
#include <vector>

#include "store/filter.h"
#include "store/test_jobs.h"

namespace muster::store {
namespace {

using Comparator = FilterCondition::Comparator;
using Kind = FilterNode::Kind;

// Whether the pieces from `piece` on match the text, by trying every place for each star.
bool MatchesFrom(const std::vector<std::string>& pieces, size_t piece, std::string_view text) {
  if (!text.starts_with(pieces[piece])) return false;
  text.remove_prefix(pieces[piece].size());
  if (piece + 1 == pieces.size()) return text.empty();
  for (size_t skipped = 0; skipped <= text.size(); ++skipped) {
    if (MatchesFrom(pieces, piece + 1, text.substr(skipped))) return true;
  }
  return false;
}

bool Compares(int64_t left, Comparator comparator, int64_t right) {
  switch (comparator) {
    case Comparator::kEqual:
      return left == right;
    case Comparator::kLess:
      return left < right;
    case Comparator::kLessEqual:
      return left <= right;
    case Comparator::kGreater:
      return left > right;
    case Comparator::kGreaterEqual:
      return left >= right;
  }
  return false;
}

bool Matches(const FilterCondition& condition, const Resource& resource) {
  const auto matches = [&](std::string_view text) {
    return MatchesFrom(condition.pattern.pieces, 0, text);
  };
  switch (condition.field) {
    case FilterField::kDisplayName:
      return matches(resource.display_name);
    case FilterField::kName:
      return matches(resource.name);
    case FilterField::kState:
      return resource.state == condition.number;
    case FilterField::kCreateTime:
      return Compares(ToMicros(resource.create_time), condition.comparator, condition.number);
    case FilterField::kUpdateTime:
      return Compares(ToMicros(resource.update_time), condition.comparator, condition.number);
    case FilterField::kLabel:
      return std::ranges::any_of(resource.labels, [&](const auto& label) {
        return label.first == condition.label_key && matches(label.second);
      });
  }
  return false;
}

bool Matches(const FilterNode& node, const Resource& resource) {
  const auto matches = [&](const FilterNode& child) { return Matches(child, resource); };
  switch (node.kind) {
    case Kind::kAnd:
      return std::ranges::all_of(node.children, matches);
    case Kind::kOr:
      return std::ranges::any_of(node.children, matches);
    case Kind::kNot:
      return !Matches(node.children.front(), resource);
    case Kind::kCondition:
      return Matches(node.condition, resource);
  }
  return false;
}

// Few different texts and times, so that filters match some jobs and not others; with all that is
// special to GLOB, LIKE and our own quoting.
const std::vector<std::string> kTexts = {
    "",  "a",   "ab", "abc", "ba", "A",   "a*b", "a?b", "a[b]", "*",   "?",  "[",  "]",
    "^", "[a]", "%",  "_",   "ä",  "a b", "\\",  "'\"", "漢字", "AND", "-a", "a-b"};
const std::vector<std::string> kKeys = {"k", "env", "a-b", "a.b", "K"};

rc::Gen<std::string> AnyText() { return rc::gen::elementOf(kTexts); }

rc::Gen<Time> AnyTime() {
  return rc::gen::map(rc::gen::inRange(0, 5),
                      [](int seconds) { return Time(std::chrono::seconds(seconds)); });
}

// Backslashes before whatever could mean something else.
std::string Escaped(std::string_view text, std::string_view special) {
  std::string escaped;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string AnyValue() {
  const auto pieces = *rc::gen::resize(
      3, rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(AnyText())));
  const char quote = *rc::gen::element('"', '\'');
  std::string value(1, quote);
  for (size_t i = 0; i < pieces.size(); ++i) {
    value += (i > 0 ? "*" : "") + Escaped(pieces[i], "*\\'\"");
  }
  return value + quote;
}

std::string AnyCondition() {
  switch (*rc::gen::inRange(0, 6)) {
    case 0:
      return *rc::gen::element<std::string>("display_name", "displayName") +
             *rc::gen::element<std::string>("=", " != ", ":") + AnyValue();
    case 1:
      return "name:" + AnyValue();
    case 2:
      return "state" + *rc::gen::element<std::string>("=", "!=") +
             *rc::gen::element<std::string>("JOB_STATE_PENDING", "'JOB_STATE_RUNNING'",
                                            "\"JOB_STATE_FAILED\"");
    case 3:
      return *rc::gen::element<std::string>("create_time", "update_time") +
             *rc::gen::element<std::string>("=", "!=", "<", "<=", ">", ">=") +
             FormatRfc3339(*AnyTime());
    case 4:
      return "labels.'" + *rc::gen::elementOf(kKeys) + "'" +
             *rc::gen::element<std::string>("=", "!=", ":") + AnyValue();
    default:
      return *rc::gen::element<std::string>("labels:'", "-labels:'") + *rc::gen::elementOf(kKeys) +
             "'";
  }
}

std::string AnyFilter(int depth) {
  if (depth == 0) return AnyCondition();
  switch (*rc::gen::inRange(0, 6)) {
    case 0:
      return AnyFilter(depth - 1) + " AND " + AnyFilter(depth - 1);
    case 1:
      return AnyFilter(depth - 1) + " OR " + AnyFilter(depth - 1);
    case 2:
      return AnyFilter(depth - 1) + " " + AnyFilter(depth - 1);
    case 3:
      return "NOT (" + AnyFilter(depth - 1) + ")";
    case 4:
      return "-(" + AnyFilter(depth - 1) + ") OR (" + AnyFilter(depth - 1) + ")";
    default:
      return AnyCondition();
  }
}

std::vector<std::string> Names(const std::vector<Resource>& resources) {
  std::vector<std::string> names;
  names.reserve(resources.size());
  for (const Resource& resource : resources) names.push_back(resource.name);
  return names;
}

class FilterSqlTest : public StoreTest {
 protected:
  // Fifty random jobs, the same ones for all filters of a test.
  void Fill() {
    Open();
    rc::Random random(20261120);
    for (int id = 0; id < 50; ++id) {
      const auto any = [&](const auto& gen) { return gen(random.split(), 10).value(); };
      JobChange change = TestJob(id, any(rc::gen::element(kPending, kRunning, kFailed)));
      Resource& resource = *change.resource;
      resource.display_name = any(AnyText());
      resource.create_time = any(AnyTime());
      resource.update_time = any(AnyTime());
      for (const std::string& key : kKeys) {
        if (any(rc::gen::inRange(0, 3)) == 0) resource.labels.emplace_back(key, any(AnyText()));
      }
      ASSERT_TRUE(store_->CreateJob(change));
      jobs_.push_back(resource);
    }
    std::ranges::sort(jobs_, [](const Resource& a, const Resource& b) {
      return std::tie(b.create_time, b.name) < std::tie(a.create_time, a.name);
    });
  }

  std::vector<std::string> Expected(const FilterNode& filter) const {
    std::vector<Resource> matching;
    std::ranges::copy_if(jobs_, std::back_inserter(matching),
                         [&](const Resource& resource) { return Matches(filter, resource); });
    return Names(matching);
  }

  std::vector<Resource> jobs_;  // newest first
};

TEST_F(FilterSqlTest, AgreesWithTheNaiveEvaluation) {
  Fill();
  int filters_with_some_but_not_all = 0;
  EXPECT_TRUE(rc::check("SQL and naive evaluation agree", [&] {
    const std::string text = AnyFilter(*rc::gen::inRange(0, 5));
    RC_LOG() << text << "\n";
    const auto filter = ParseFilter(text, "customJobs");
    RC_ASSERT(filter.has_value());
    const std::vector<std::string> expected = Expected(*filter);
    filters_with_some_but_not_all += !expected.empty() && expected.size() < jobs_.size();

    std::vector<std::string> found;
    ListQuery query = {"customJobs", kParent, text, *rc::gen::inRange(1, 60), ""};
    do {
      const auto page = store_->ListResources(query);
      RC_ASSERT(page.has_value());
      for (const std::string& name : Names(page->resources)) found.push_back(name);
      query.page_token = page->next_page_token;
      RC_ASSERT(found.size() <= jobs_.size());
    } while (!query.page_token.empty());
    RC_ASSERT(found == expected);
  }));
  EXPECT_GT(filters_with_some_but_not_all, 3);  // else the test says little; 30 are usual
}

TEST_F(FilterSqlTest, SpecialCharactersStandForThemselves) {
  Fill();
  for (const std::string& text : kTexts) {
    const std::string escaped = Escaped(text, "*\\'\"");
    for (const std::string& value : {escaped, escaped + "*", "*" + escaped, "*" + escaped + "*"}) {
      for (const std::string field : {"display_name='", "labels.k='"}) {
        const auto filter = ParseFilter(field + value + "'", "customJobs");
        ASSERT_TRUE(filter) << filter.error().message;
        const auto page =
            store_->ListResources({"customJobs", kParent, field + value + "'", 0, ""});
        ASSERT_TRUE(page) << page.error().message;
        EXPECT_EQ(Names(page->resources), Expected(*filter)) << field << value;
      }
    }
  }
}

TEST_F(FilterSqlTest, WalksEachIndexInOrder) {
  Fill();
  for (const std::string text : {"state=JOB_STATE_RUNNING", "labels.k:*", "labels.env='a'",
                                 "labels.k='' state=JOB_STATE_FAILED", "labels:k labels:env",
                                 "state=JOB_STATE_RUNNING AND create_time>1970-01-01T00:00:01Z"}) {
    const auto filter = ParseFilter(text, "customJobs");
    ASSERT_TRUE(filter);
    for (const int page_size : {2, 50}) {
      std::vector<std::string> found;
      ListQuery query = {"customJobs", kParent, text, page_size, ""};
      do {
        const auto page = store_->ListResources(query);
        ASSERT_TRUE(page) << page.error().message;
        for (const std::string& name : Names(page->resources)) found.push_back(name);
        query.page_token = page->next_page_token;
      } while (!query.page_token.empty() && found.size() <= jobs_.size());
      EXPECT_EQ(found, Expected(*filter)) << text;
    }
  }
}

// The largest filters there can be still fit SQLite's own limits.
TEST_F(FilterSqlTest, LargestFilters) {
  Fill();
  std::vector<std::string> filters(5);
  for (int i = 0; i < kFilterConditionsMax; ++i) filters[0] += "-labels:k ";
  for (int i = 0; i < kFilterConditionsMax; ++i)
    filters[1] += (i > 0 ? " OR " : "") + std::string("labels.k=a*");
  // AND and OR in turn, with all on one side, the deepest last or first.
  for (int i = 0; i < kFilterNestingMax; ++i) {
    filters[2] += "labels:k labels.k=a* OR (";
    filters[3] += "-(";
  }
  filters[2] += "labels:k" + std::string(size_t(kFilterNestingMax), ')');
  filters[3] += "labels:k";
  for (int i = 0; i < kFilterNestingMax; ++i) filters[3] += " OR labels.k=a* labels:env)";
  // A full binary tree.
  const auto tree = [](auto& self, int depth) -> std::string {
    if (depth == 0) return "labels:k";
    const std::string half = self(self, depth - 1);
    return "-(" + half + (depth % 2 == 0 ? ") OR -(" : ") -(") + half + ")";
  };
  filters[4] = tree(tree, 8);
  for (const std::string& text : filters) {
    const auto filter = ParseFilter(text, "customJobs");
    ASSERT_TRUE(filter) << filter.error().message;
    const auto page = store_->ListResources({"customJobs", kParent, text, 0, ""});
    ASSERT_TRUE(page) << page.error().message << "\n" << text;
    EXPECT_EQ(Names(page->resources), Expected(*filter)) << text;
  }
}

TEST_F(FilterSqlTest, UserTextIsNeverSql) {
  Fill();
  for (const std::string text : {"display_name=\"'; DROP TABLE resources; --\"",
                                 "labels.\"' OR 1=1 --\"=\"x' OR '1'='1\""}) {
    const auto page = store_->ListResources({"customJobs", kParent, text, 0, ""});
    ASSERT_TRUE(page) << page.error().message;
    EXPECT_TRUE(page->resources.empty());
  }
  EXPECT_EQ(store_->ListResources({"customJobs", kParent, "", 0, ""})->resources.size(), 50u);
}

// A pattern made to take exponential time, were it matched by trying every place for each star.
TEST_F(FilterSqlTest, PatternsTakePolynomialTime) {
  Open();
  JobChange change = TestJob(1);
  change.resource->display_name.assign(128, 'a');
  ASSERT_TRUE(store_->CreateJob(change));
  std::string pattern;
  for (int i = 0; i < 60; ++i) pattern += "*a";
  const auto page =
      store_->ListResources({"customJobs", kParent, "display_name='" + pattern + "*b'", 0, ""});
  ASSERT_TRUE(page);
  EXPECT_TRUE(page->resources.empty());
}

}  // namespace
}  // namespace muster::store
