#include "base/time.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace muster {
namespace {

TEST(Rfc3339, FormatsSixDecimals) {
  EXPECT_EQ(FormatRfc3339(FromMicros(1'700'000'000'000'001)), "2023-11-14T22:13:20.000001Z");
}

TEST(Rfc3339, AcceptsOffsetsAndAnyFraction) {
  EXPECT_EQ(*ParseRfc3339("2023-11-14T23:13:20+01:00"), FromMicros(1'700'000'000'000'000));
  EXPECT_EQ(*ParseRfc3339("2023-11-14T22:13:20.123456789Z"), FromMicros(1'700'000'000'123'456));
}

TEST(Rfc3339, RejectsWhatIsNoTime) {
  for (const char* text : {"", "2023", "2023-02-30T00:00:00Z", "2023-11-14T22:13:20",
                           "2023-11-14T25:13:20Z", "2023-11-14T22:13:20.Z", "x2023-11-14T22:13:20Z",
                           "2023-11-14T22:13:20Zx", "2023-11-14T22:13:20+1:00"}) {
    EXPECT_FALSE(ParseRfc3339(text)) << text;
  }
}

RC_GTEST_PROP(Rfc3339, ParsesWhatItFormats, ()) {
  const auto micros = *rc::gen::inRange<int64_t>(0, 4'000'000'000'000'000);
  RC_ASSERT(*ParseRfc3339(FormatRfc3339(FromMicros(micros))) == FromMicros(micros));
}

}  // namespace
}  // namespace muster
