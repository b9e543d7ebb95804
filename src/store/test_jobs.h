// What the store's tests share: a directory of their own, and jobs to put into it.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/file.h"
#include "store/store.h"

namespace muster::store {

inline constexpr char kParent[] = "projects/p/locations/us-central1";

// JobState
inline constexpr int kPending = 2, kRunning = 3, kSucceeded = 4, kFailed = 5, kCancelled = 7;

inline std::string JobName(int id) { return fmt::format("{}/customJobs/{}", kParent, id); }

// Job `id`, created `id` seconds after a fixed time.
inline JobChange TestJob(int id, int state = kPending) {
  const Time time = FromMicros(1'700'000'000'000'000) + std::chrono::seconds(id);
  JobChange change;
  change.resource = Resource{.kind = "customJobs",
                             .name = JobName(id),
                             .parent = kParent,
                             .display_name = fmt::format("run-{}", id),
                             .state = state,
                             .create_time = time,
                             .update_time = time,
                             .labels = {},
                             .body = fmt::format("body of {}", id)};
  change.job = JobRecord{.job_uid = fmt::format("uid-{}", id),
                         .resource_name = JobName(id),
                         .lifecycle = "lifecycle",
                         .grant = ""};
  return change;
}

class StoreTest : public testing::Test {
 protected:
  StoreTest() { std::filesystem::create_directories(directory_); }
  ~StoreTest() override {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }

  // Opens the store, or opens it again.
  void Open() {
    store_.reset();
    auto opened = Store::Open(file_);
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
  }

  const std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / ("muster-store-" + RandomHex(12));
  const std::filesystem::path file_ = directory_ / "muster.db";
  std::unique_ptr<Store> store_;
};

}  // namespace muster::store
