// How many jobs a second the store takes, and how long a page of a long list takes.
//
//   store_bench [--jobs 100000] [--directory .] [--json FILE]
//
// The directory decides what an fsync costs; measure where musterd's data directory will be.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/file.h"
#include "store/store.h"

namespace muster::store {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr char kParent[] = "projects/p/locations/us-central1";
constexpr int kPending = 2, kSucceeded = 4, kFailed = 5;

struct Options {
  int jobs = 100'000;
  std::filesystem::path directory = ".";
  std::string json;
};

struct Figure {
  std::string measure;
  double value;
  std::string unit;
};

// A job of ordinary size: 2 kB of specification, three labels. One in 1000 has failed.
JobChange BenchJob(int id, int state) {
  const Time time = FromMicros(1'700'000'000'000'000) + std::chrono::milliseconds(id);
  const std::string name = fmt::format("{}/customJobs/{}", kParent, 1'000'000'000 + id);
  JobChange change;
  change.resource = Resource{.kind = "customJobs",
                             .name = name,
                             .parent = kParent,
                             .display_name = fmt::format("training run {}", id),
                             .state = state,
                             .create_time = time,
                             .update_time = time,
                             .labels = {{"team", fmt::format("team-{}", id % 10)},
                                        {"experiment", fmt::format("e{}", id % 1000)},
                                        {"owner", "somebody"}},
                             .body = std::string(2000, 'b')};
  change.job = JobRecord{.job_uid = fmt::format("uid{}", id),
                         .resource_name = name,
                         .lifecycle = std::string(300, 'l'),
                         .grant = ""};
  change.events = {{change.job.job_uid, 0, time, false, "Waiting for job to be provisioned."}};
  return change;
}

void OrDie(bool ok, std::string_view what) {
  if (ok) return;
  fmt::print(stderr, "store_bench: {} failed\n", what);
  std::exit(1);
}

double Measure(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return Seconds(std::chrono::steady_clock::now() - begin).count();
}

// Creates the jobs [first, end) with that many threads.
void Create(Store& store, int first, int end, int threads) {
  std::atomic<int> next = first;
  const auto work = [&] {
    for (int id = next++; id < end; id = next++) {
      const int state = id % 1000 == 0 ? kFailed : id % 7 == 0 ? kPending : kSucceeded;
      OrDie(store.CreateJob(BenchJob(id, state)).has_value(), "a create");
    }
  };
  std::vector<std::thread> workers;
  workers.reserve(size_t(threads));
  for (int i = 0; i < threads; ++i) workers.emplace_back(work);
  for (std::thread& worker : workers) worker.join();
}

// The median of many, in milliseconds; each reads the page behind `token`.
double PageMs(const Store& store, const std::string& filter, const std::string& token) {
  std::vector<double> times(101);
  for (double& time : times) {
    time = Measure([&] {
      OrDie(store.ListResources({"customJobs", kParent, filter, 100, token}).has_value(), "a list");
    });
  }
  std::ranges::nth_element(times, times.begin() + 50);
  return times[50] * 1000;
}

std::string TokenBehind(const Store& store, int pages) {
  std::string token;
  for (int i = 0; i < pages; ++i) {
    const auto page = store.ListResources({"customJobs", kParent, "", 1000, token});
    OrDie(page.has_value(), "a list");
    token = page->next_page_token;
  }
  return token;
}

constexpr int kAlone = 500;
constexpr int kTogether = 5000;

std::vector<Figure> Run(Store& store, int jobs) {
  std::vector<Figure> figures;
  figures.push_back(
      {"creates, 1 thread", kAlone / Measure([&] { Create(store, 0, kAlone, 1); }), "1/s"});
  const double seconds = Measure([&] { Create(store, kAlone, kAlone + kTogether, 16); });
  figures.push_back({"creates, 16 threads", kTogether / seconds, "1/s"});
  Create(store, kAlone + kTogether, jobs, 64);

  JobChange change = BenchJob(0, kPending);
  const double saves = Measure([&] {
    for (int i = 0; i < 500; ++i) OrDie(store.SaveJob(change).has_value(), "a save");
  });
  figures.push_back({"saves, 1 thread", 500 / saves, "1/s"});
  const double gets = Measure([&] {
    for (int i = 0; i < 1000; ++i) {
      OrDie(store.GetResource(change.resource->name).has_value(), "a get");
    }
  });
  figures.push_back({"get", gets, "ms"});  // of 1000, so milliseconds each
  const std::pair<const char*, const char*> filters[] = {
      {"no filter", ""},
      {"a common state", "state=JOB_STATE_SUCCEEDED"},
      {"a rare state", "state=JOB_STATE_FAILED"},
      {"a state nothing has", "state=JOB_STATE_CANCELLED"},
      {"all but a state", "state!=JOB_STATE_SUCCEEDED"},
      {"two rare states", "state=JOB_STATE_FAILED OR state=JOB_STATE_CANCELLED"},
      {"a common label", "labels.owner=somebody"},
      {"a rare label", "labels.experiment=e77"},
      {"a label nothing has", "labels.experiment=none"},
      {"a label key", "labels.team:*"},
      {"rare label and state", "labels.team=team-0 AND state=JOB_STATE_FAILED"},
      {"a name nothing has", "display_name:\"*nothing*\""},
      {"a time", "create_time<\"2023-11-14T22:13:30Z\""},
  };
  for (const auto& [name, filter] : filters) {
    figures.push_back({fmt::format("page of 100: {}", name), PageMs(store, filter, ""), "ms"});
  }
  const std::string middle = TokenBehind(store, jobs / 2000);
  figures.push_back({"page of 100: from the middle", PageMs(store, "", middle), "ms"});
  return figures;
}

// Our own names only, so nothing needs escapes.
std::string Json(const std::vector<Figure>& figures, int jobs) {
  std::string json = "[";
  for (const Figure& figure : figures) {
    json += fmt::format(
        "{}\n  {{\"measure\": \"{}\", \"system\": \"muster store\", \"value\": {:.4g}, "
        "\"unit\": \"{}\", \"limit\": null, \"jobs\": {}}}",
        json.size() > 1 ? "," : "", figure.measure, figure.value, figure.unit, jobs);
  }
  return json + "\n]\n";
}

bool ParseOptions(int argc, char** argv, Options& options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i], value = argv[i + 1];
    if (name == "--directory") {
      options.directory = value;
    } else if (name == "--json") {
      options.json = value;
    } else if (name != "--jobs" ||
               std::from_chars(value.begin(), value.end(), options.jobs).ptr != value.end()) {
      return false;
    }
  }
  return argc % 2 == 1 && options.jobs >= 10'000;
}

int Main(int argc, char** argv) {
  Options options;
  if (!ParseOptions(argc, argv, options)) {
    fmt::print(stderr, "store_bench [--jobs N (at least 10000)] [--directory DIR] [--json FILE]\n");
    return 2;
  }
  const std::filesystem::path directory = options.directory / ("store-bench-" + RandomHex(8));
  OrDie(MakeDirectories(directory).has_value(), "making a directory");
  auto store = Store::Open(directory / "muster.db");
  OrDie(store.has_value(), "opening the store");
  const std::vector<Figure> figures = Run(**store, options.jobs);
  const auto counts = (*store)->counts();
  fmt::print("{} jobs, {:.1f} writes a commit\n", counts.resources,
             double(counts.written) / double(counts.commits));
  for (const Figure& figure : figures) {
    fmt::print("{:<40} {:>10.4g} {}\n", figure.measure, figure.value, figure.unit);
  }
  store->reset();
  fmt::print("{:<40} {:>10} kB\n", "file",
             std::filesystem::file_size(directory / "muster.db") / 1000);
  OrDie(RemoveTree(directory).has_value(), "removing the directory");
  if (!options.json.empty()) {
    OrDie(WriteFileAtomic(options.json, Json(figures, options.jobs)).has_value(), "writing");
  }
  return 0;
}

}  // namespace
}  // namespace muster::store

int main(int argc, char** argv) { return muster::store::Main(argc, argv); }
