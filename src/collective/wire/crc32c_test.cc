#include "collective/wire/crc32c.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string_view>
#include <vector>

namespace muster::collective {
namespace {

TEST(Crc32cTest, KnownValue) {
  constexpr std::string_view kText = "123456789";
  EXPECT_EQ(Crc32c(std::as_bytes(std::span(kText))), 0xE3069283u);
  EXPECT_EQ(Crc32c({}), 0u);
}

RC_GTEST_PROP(Crc32cProperties, InstructionAndTableAgreeInAnyParts, ()) {
  const auto bytes = *rc::gen::arbitrary<std::vector<uint8_t>>();
  const auto all = std::as_bytes(std::span(bytes));
  const auto cut = *rc::gen::inRange<size_t>(0, bytes.size() + 1);
  RC_ASSERT(Crc32c(all) == Crc32cByTable(all));
  RC_ASSERT(Crc32c(all.subspan(cut), Crc32c(all.first(cut))) == Crc32c(all));
}

}  // namespace
}  // namespace muster::collective
