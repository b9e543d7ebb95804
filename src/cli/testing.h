// What the tests of commands share: a world to run them in, and golden files.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/time.h"
#include "cli/app.h"
#include "cli/context.h"

namespace muster::cli {

// A context that keeps what is written, stands still in time, and has no environment.
struct FakeWorld {
  Output out = Output::ToString();
  Output err = Output::ToString();
  FakeClock clock;
  Context context{out, err, {}, "/home/me/project", clock};

  int Run(const std::vector<std::string>& arguments) { return RunMuster(context, arguments); }
};

// Compares with tests/golden/cli/NAME; MUSTER_UPDATE_GOLDEN=1 writes it instead.
inline void ExpectGolden(const std::string& name, const std::string& text) {
  const std::filesystem::path file =
      std::filesystem::path(MUSTER_SOURCE_DIR) / "tests/golden/cli" / name;
  if (std::getenv("MUSTER_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(WriteFileAtomic(file, text).has_value());
    return;
  }
  const Result<std::string> expected = ReadFile(file);
  ASSERT_TRUE(expected.has_value())
      << expected.error().message << "; MUSTER_UPDATE_GOLDEN=1 writes it";
  EXPECT_EQ(text, *expected) << "MUSTER_UPDATE_GOLDEN=1 rewrites " << file;
}

// A directory of the test's own, removed at its end.
class TemporaryDirectory {
 public:
  TemporaryDirectory()
      : path_(std::filesystem::temp_directory_path() / ("muster-cli-" + RandomHex(12))) {
    std::filesystem::create_directories(path_);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace muster::cli
