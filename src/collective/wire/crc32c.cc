#include "collective/wire/crc32c.h"

#include <array>
#include <cstring>

namespace muster::collective {
namespace {

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78 : 0);
    table[i] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = MakeTable();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t Crc32cByInstruction(std::span<const std::byte> bytes,
                                                               uint32_t before) {
  uint64_t crc = ~before;
  while (bytes.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    crc = __builtin_ia32_crc32di(crc, word);
    bytes = bytes.subspan(8);
  }
  auto narrow = static_cast<uint32_t>(crc);
  for (const std::byte byte : bytes) {
    narrow = __builtin_ia32_crc32qi(narrow, std::to_integer<uint8_t>(byte));
  }
  return ~narrow;
}
#endif

}  // namespace

uint32_t Crc32cByTable(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t crc = ~before;
  for (const std::byte byte : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ std::to_integer<uint32_t>(byte)) & 0xFF];
  }
  return ~crc;
}

uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t before) {
#if defined(__x86_64__)
  static const bool instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (instruction) return Crc32cByInstruction(bytes, before);
#endif
  return Crc32cByTable(bytes, before);
}

}  // namespace muster::collective
