#include "attempt/proc_stat.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace muster::attempt {
namespace {

constexpr const char* kRest = " 7 5 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456789 1 2 3\n";

TEST(ProcStat, NamesMayHoldAnything) {
  for (const char* name : {"sh", "a b", ") Z 1 2 3", "((", "x)\n) S", ""}) {
    const auto stat = ParseProcStat(std::string("42 (") + name + ") R" + kRest);
    ASSERT_TRUE(stat) << name;
    EXPECT_EQ(stat->state, 'R');
    EXPECT_FALSE(stat->is_zombie());
    EXPECT_EQ(stat->parent, 7);
    EXPECT_EQ(stat->session, 9);
    EXPECT_EQ(stat->start_time_ticks, 123456789u);
  }
  EXPECT_TRUE(ParseProcStat(std::string("42 (sh) Z") + kRest)->is_zombie());
}

TEST(ProcStat, WhatIsCutOffIsNotUnderstood) {
  const std::string whole = std::string("42 (sh) R") + kRest;
  const size_t needed = whole.find("123456789");
  for (size_t size = 0; size <= needed; ++size) {
    EXPECT_FALSE(ParseProcStat(std::string_view(whole).substr(0, size))) << size;
  }
  EXPECT_FALSE(ParseProcStat("42 (sh) R x 5 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 1 1"));
}

TEST(ProcStat, OfThisProcess) {
  const auto stat = ReadProcStat(::getpid());
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->parent, ::getppid());
  EXPECT_EQ(stat->session, ::getsid(0));
  EXPECT_GT(stat->start_time_ticks, 0u);
  EXPECT_FALSE(ReadProcStat(-1));
}

}  // namespace
}  // namespace muster::attempt
