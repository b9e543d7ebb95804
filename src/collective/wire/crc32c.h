// CRC-32C (Castagnoli), as iSCSI and ext4 use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace muster::collective {

// Of `bytes` that follow others whose CRC-32C is `before`; 0 for none. Uses the processor's
// instruction where there is one.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

// The same by a table: what tests compare with.
uint32_t Crc32cByTable(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace muster::collective
