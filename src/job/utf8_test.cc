#include "job/utf8.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

namespace muster::job {
namespace {

TEST(Utf8Test, CountsCharacters) {
  EXPECT_EQ(CountCharacters(""), 0u);
  EXPECT_EQ(CountCharacters("abc"), 3u);
  EXPECT_EQ(CountCharacters("äß€😀"), 4u);
}

TEST(Utf8Test, LeavesValidTextAloneAndReplacesTheRest) {
  EXPECT_EQ(ValidUtf8("äß€😀\n"), "äß€😀\n");
  EXPECT_EQ(ValidUtf8("a\xffz"), "a\xef\xbf\xbdz");
  EXPECT_EQ(ValidUtf8("\xe2\x82"), "\xef\xbf\xbd\xef\xbf\xbd");       // cut
  EXPECT_EQ(ValidUtf8("\xc0\xaf").find('/'), std::string::npos);      // overlong
  EXPECT_EQ(ValidUtf8("\xed\xa0\x80").substr(0, 3), "\xef\xbf\xbd");  // surrogate
}

// Valid means: a strict JSON library takes it.
RC_GTEST_PROP(Utf8Property, OutputIsValidAndStable, (const std::string& bytes)) {
  const std::string valid = ValidUtf8(bytes);
  const std::string quoted =
      nlohmann::json(valid).dump(-1, ' ', false, nlohmann::json::error_handler_t::ignore);
  RC_ASSERT(nlohmann::json::parse(quoted).get<std::string>() == valid);
  RC_ASSERT(ValidUtf8(valid) == valid);
}

}  // namespace
}  // namespace muster::job
