// Replicas' log files in a temporary directory, for the server's tests.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "control/job_control.h"
#include "logs/record.h"

namespace muster::server {

inline constexpr const char* kTestJob = "projects/p/locations/us-central1/customJobs/7";

class TestLogs {
 public:
  // `keys`: "workerpool0-0/1", task and attempt.
  explicit TestLogs(const std::vector<std::string>& keys)
      : directory_(std::filesystem::temp_directory_path() / ("muster-server-" + RandomHex(16))) {
    std::filesystem::create_directories(directory_);
    sources_.job_uid = "uid";
    sources_.state = 3;
    sources_.sources.push_back({"service", "service", 0, {}});
    for (const std::string& key : keys) {
      const size_t slash = key.find('/');
      sources_.sources.push_back(
          {key, key.substr(0, slash), std::stoi(key.substr(slash + 1)), File(key)});
    }
  }
  ~TestLogs() { std::filesystem::remove_all(directory_); }
  TestLogs(const TestLogs&) = delete;
  TestLogs& operator=(const TestLogs&) = delete;

  const control::LogSources& sources() const { return sources_; }

  void Write(const std::string& key, int64_t micros, std::string_view text) {
    std::string record;
    logs::AppendRecord(record, FromMicros(1'700'000'000'000'000 + micros), logs::Stream::kStdout,
                       false, text);
    std::ofstream(File(key), std::ios::app) << record;
  }

 private:
  std::filesystem::path File(std::string key) const {
    key[key.find('/')] = '_';
    return directory_ / key;
  }

  std::filesystem::path directory_;
  control::LogSources sources_;
};

}  // namespace muster::server
