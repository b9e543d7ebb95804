#include "server/json_string.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace muster::server {
namespace {

TEST(AppendJsonString, EscapesWhatJsonMustNotHold) {
  std::string out = "x";
  AppendJsonString(out, std::string_view("a\"\\\n\r\t\0\x1f\x7fé\xff", 12));
  EXPECT_EQ(out, "x\"a\\\"\\\\\\n\\r\\t\\u0000\\u001f\\u007fé\uFFFD\"");
}

RC_GTEST_PROP(AppendJsonString, IsReadBackAsTheSanitizedText, (std::string text)) {
  std::string out;
  AppendJsonString(out, text);
  RC_ASSERT(nlohmann::json::accept(out));
  RC_ASSERT(nlohmann::json::parse(out).get<std::string>() == ToValidUtf8(text));
  RC_ASSERT(out.find('\n') == std::string::npos);
}

}  // namespace
}  // namespace muster::server
