#include "base/utf8.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace muster {
namespace {

TEST(Utf8, ReplacesWhatIsIllFormed) {
  EXPECT_EQ(ToValidUtf8("plain"), "plain");
  EXPECT_EQ(ToValidUtf8("é€𝄞"), "é€𝄞");
  EXPECT_EQ(ToValidUtf8("a\xff"
                        "b"),
            "a\uFFFDb");
  EXPECT_EQ(ToValidUtf8("\xc3"), "\uFFFD");                                // cut off
  EXPECT_EQ(ToValidUtf8("\xc0\xaf"), "\uFFFD\uFFFD");                      // overlong
  EXPECT_EQ(ToValidUtf8("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");            // surrogate
  EXPECT_EQ(ToValidUtf8("\xf4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // beyond U+10FFFF
}

TEST(Utf8, BoundariesDoNotCutCharacters) {
  const std::string text = "aé€𝄞";  // 1 + 2 + 3 + 4 bytes
  const size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10};
  for (size_t size = 1; size <= text.size(); ++size) {
    EXPECT_EQ(CharacterBoundary(text, size), expected[size]) << size;
  }
  EXPECT_EQ(CharacterBoundary("\x80\x80\x80\x80\x80\x80", 5), 5u) << "no UTF-8: cut anywhere";
}

TEST(Utf8, CountsCharacters) {
  EXPECT_EQ(CountCharacters(""), 0u);
  EXPECT_EQ(CountCharacters("abc"), 3u);
  EXPECT_EQ(CountCharacters("äß€😀"), 4u);
}

RC_GTEST_PROP(Utf8, ResultIsWellFormed, (const std::string& bytes)) {
  const std::string text = ToValidUtf8(bytes);
  RC_ASSERT(ToValidUtf8(text) == text);
  RC_ASSERT(IsValidUtf8(text));
}

TEST(Utf8, KnowsValidText) {
  for (const auto* text : {"", "abc", "é", "€", "😀", "\x7f", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(IsValidUtf8(text)) << text;
    EXPECT_EQ(ToValidUtf8(text), text);
  }
  for (const auto* text : {"\x80", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
                           "\xf4\x90\x80\x80", "\xff", "a\xe2\x82"}) {
    EXPECT_FALSE(IsValidUtf8(text)) << text;
    EXPECT_TRUE(IsValidUtf8(ToValidUtf8(text)));
  }
  EXPECT_EQ(ToValidUtf8("a\xff"
                        "b"),
            "a\uFFFDb");
}

RC_GTEST_PROP(Utf8, EveryCodePointIsValidBetweenOthers, ()) {
  const auto code = *rc::gen::inRange<uint32_t>(0x80, 0x110000);
  std::string text = "a";
  if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | code >> 12);
    text += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
  } else {
    text += static_cast<char>(0xF0 | code >> 18);
    text += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    text += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
  }
  text += static_cast<char>(0x80 | (code & 0x3F));
  text += 'b';
  RC_ASSERT(IsValidUtf8(text) == (code < 0xD800 || code > 0xDFFF));
}

}  // namespace
}  // namespace muster
