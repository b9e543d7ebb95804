#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "logs/merge.h"

namespace muster::logs {
namespace {

TEST(Cursor, IsShortAndUrlSafe) {
  Cursor cursor;
  EXPECT_EQ(cursor.ToText(), "1");
  cursor.Set("service", 7);
  cursor.Set("workerpool0-0/0", 36);
  cursor.Set("workerpool1-12/3", Cursor::Position{1000, {-1, 900, 1}});
  cursor.Set("odd~key", 1);
  EXPECT_EQ(cursor.ToText(), "1~k6f64647e6b6579_1~s_7~0-0.0_10~1-12.3_rs_e2s_frr");
  EXPECT_EQ(*Cursor::Parse(cursor.ToText()), cursor);
  EXPECT_EQ(cursor.Offset("workerpool1-12/3"), 1000);
  EXPECT_EQ(cursor.Offset("unknown"), 0);
}

TEST(Cursor, TheStartIsEmptyText) { EXPECT_EQ(*Cursor::Parse(""), Cursor()); }

TEST(Cursor, RefusesWhatIsNone) {
  for (const char* text : {"2", "x", "~", "1~", "1~s", "1~s_", "1~s_-1", "1~s_zzzzzzzzzzzzzzzzzzzz",
                           "1~s_1_", "1~s_5_o6", "1~s_5_o0", "1~s_5_x1", "1~s_5_o1_o1", "1~0-0_1",
                           "1~00-0.0_1", "1~k6_1", "1~kzz_1", "1~0-0.0_1~~"}) {
    const auto cursor = Cursor::Parse(text);
    ASSERT_FALSE(cursor) << text;
    EXPECT_EQ(cursor.error().code, Code::kInvalidArgument) << text;
  }
  EXPECT_FALSE(Cursor::Parse(std::string(1 << 20, '~')));
}

RC_GTEST_PROP(Cursor, ComesBackFromItsText, ()) {
  Cursor cursor;
  const auto keys = *rc::gen::arbitrary<std::vector<std::string>>();
  for (const auto& key : keys) {
    Cursor::Position position;
    position.offset = *rc::gen::inRange<int64_t>(1, INT64_MAX);
    for (auto& pending : position.pending) {
      if (*rc::gen::arbitrary<bool>()) pending = *rc::gen::inRange<int64_t>(0, position.offset);
    }
    cursor.Set(key, position);
  }
  const std::string text = cursor.ToText();
  RC_ASSERT(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-._~") ==
            std::string::npos);
  RC_ASSERT(*Cursor::Parse(text) == cursor);
}

}  // namespace
}  // namespace muster::logs
