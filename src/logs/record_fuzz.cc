// Any bytes as a log line.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "logs/record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::logs;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string_view line = bytes.substr(0, bytes.find('\n'));
  if (const auto record = ParseRecord(line)) {
    std::string again;
    AppendRecord(again, record->time, record->stream, record->continues, record->text);
    MUSTER_CHECK(again == std::string(line) + "\n");
  }
  const Entry entry = ToEntry(Stream::kStderr, line);
  MUSTER_CHECK(ToValidUtf8(entry.message) == entry.message);
  return 0;
}
