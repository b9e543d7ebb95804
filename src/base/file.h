// Whole small files, and directories. Paths are UTF-8 bytes; every error names the path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"

namespace muster {

Result<std::string> ReadFile(const std::filesystem::path& path);

// Readers see the old content or the new, never a part: written beside, fsynced, renamed.
Status WriteFileAtomic(const std::filesystem::path& path, std::string_view content,
                       int mode = 0644);

// mkdir -p.
Status MakeDirectories(const std::filesystem::path& path);

// rm -rf; a path that is not there is fine. Never follows links, never leaves the path's own
// file system.
Status RemoveTree(const std::filesystem::path& path);

// Random hexadecimal digits from the kernel, for ids and secrets.
std::string RandomHex(size_t digits);

}  // namespace muster
