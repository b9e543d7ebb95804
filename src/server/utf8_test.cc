#include "server/utf8.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

namespace muster::server {
namespace {

TEST(Utf8, KnowsValidText) {
  for (const auto* text : {"", "abc", "é", "€", "😀", "\x7f", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(IsValidUtf8(text)) << text;
    EXPECT_EQ(SanitizeUtf8(text), text);
  }
  for (const auto* text : {"\x80", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
                           "\xf4\x90\x80\x80", "\xff", "a\xe2\x82"}) {
    EXPECT_FALSE(IsValidUtf8(text)) << text;
    EXPECT_TRUE(IsValidUtf8(SanitizeUtf8(text)));
  }
  EXPECT_EQ(SanitizeUtf8("a\xff"
                         "b"),
            "a\uFFFDb");
}

TEST(AppendJsonString, EscapesWhatJsonMustNotHold) {
  std::string out = "x";
  AppendJsonString(out, std::string_view("a\"\\\n\r\t\0\x1f\x7fé\xff", 12));
  EXPECT_EQ(out, "x\"a\\\"\\\\\\n\\r\\t\\u0000\\u001f\\u007fé\uFFFD\"");
}

RC_GTEST_PROP(AppendJsonString, IsReadBackAsTheSanitizedText, (std::string text)) {
  std::string out;
  AppendJsonString(out, text);
  RC_ASSERT(nlohmann::json::accept(out));
  RC_ASSERT(nlohmann::json::parse(out).get<std::string>() == SanitizeUtf8(text));
  RC_ASSERT(out.find('\n') == std::string::npos);
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
}  // namespace muster::server
