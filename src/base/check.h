// MUSTER_CHECK: broken invariants end the process, in release builds too.
#pragma once

#include <cstdio>
#include <cstdlib>

#define MUSTER_CHECK(condition)                                                                 \
  do {                                                                                          \
    if (!(condition)) [[unlikely]] {                                                            \
      std::fprintf(stderr, "%s:%d: MUSTER_CHECK(%s) failed\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                             \
    }                                                                                           \
  } while (false)
