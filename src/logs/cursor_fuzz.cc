// Any text as a cursor.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "logs/merge.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using muster::logs::Cursor;
  const auto cursor = Cursor::Parse({reinterpret_cast<const char*>(data), size});
  if (cursor) MUSTER_CHECK(*Cursor::Parse(cursor->ToText()) == *cursor);
  return 0;
}
