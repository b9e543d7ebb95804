#include "store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "store/test_jobs.h"

namespace muster::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(StoreTest, KeepsAJobWithAllThatHangsOnIt) {
  Open();
  JobChange change = TestJob(1);
  change.resource->labels = {{"team", "vision"}, {"env", "prod"}};
  change.resource->body = std::string("\0\xff body", 7);
  change.job.lifecycle = std::string("\0life", 5);
  change.attempts = {{"uid-1", 1, 0, 1, "view", "launch"}, {"uid-1", 0, 0, 1, "chief", ""}};
  change.events = {{"uid-1", 0, FromMicros(5), false, "first"},
                   {"uid-1", 0, FromMicros(6), true, "\xff second"}};
  ASSERT_TRUE(store_->CreateJob(change));
  Open();

  const auto resource = store_->GetResource(JobName(1));
  ASSERT_TRUE(resource) << resource.error().message;
  EXPECT_EQ(resource->kind, "customJobs");
  EXPECT_EQ(resource->name, JobName(1));
  EXPECT_EQ(resource->parent, kParent);
  EXPECT_EQ(resource->display_name, "run-1");
  EXPECT_EQ(resource->state, kPending);
  EXPECT_EQ(resource->create_time, change.resource->create_time);
  EXPECT_EQ(resource->update_time, change.resource->update_time);
  EXPECT_EQ(resource->body, change.resource->body);
  EXPECT_THAT(resource->labels, ElementsAre(std::pair("env", "prod"), std::pair("team", "vision")));

  const auto job = store_->GetJob(JobName(1));
  ASSERT_TRUE(job);
  EXPECT_EQ(job->job_uid, "uid-1");
  EXPECT_EQ(job->resource_name, JobName(1));
  EXPECT_EQ(job->lifecycle, change.job.lifecycle);
  EXPECT_EQ(job->grant, "");

  const auto attempts = store_->Attempts("uid-1");
  ASSERT_TRUE(attempts);
  ASSERT_EQ(attempts->size(), 2u);
  EXPECT_EQ((*attempts)[0].view, "chief");
  EXPECT_EQ((*attempts)[1].pool, 1);
  EXPECT_EQ((*attempts)[1].launch, "launch");

  const auto events = store_->Events("uid-1", 0, 10);
  ASSERT_TRUE(events);
  ASSERT_EQ(events->size(), 2u);
  EXPECT_EQ((*events)[0].sequence, 1);
  EXPECT_EQ((*events)[1].sequence, 2);
  EXPECT_EQ((*events)[1].time, FromMicros(6));
  EXPECT_TRUE((*events)[1].is_error);
  EXPECT_EQ((*events)[1].text, "\xff second");
}

TEST_F(StoreTest, SaveReplacesAndAppends) {
  Open();
  JobChange change = TestJob(1);
  change.resource->labels = {{"a", "1"}};
  change.attempts = {{"uid-1", 0, 0, 1, "starting", "launch"}};
  change.events = {{"uid-1", 0, Time(), false, "one"}};
  ASSERT_TRUE(store_->CreateJob(change));

  change.resource->state = kRunning;
  change.resource->labels = {{"b", "2"}};
  change.resource->update_time += std::chrono::seconds(9);
  change.resource->create_time += std::chrono::seconds(9);  // never changes
  change.resource->body = "new body";
  change.job.lifecycle = "running";
  change.job.grant = "{}";
  change.attempts = {{"uid-1", 0, 0, 1, "running", ""}, {"uid-1", 0, 0, 2, "second", ""}};
  change.events = {{"uid-1", 77, Time(), false, "two"}, {"uid-1", 77, Time(), false, "three"}};
  ASSERT_TRUE(store_->SaveJob(change));

  const auto resource = store_->GetResource(JobName(1));
  ASSERT_TRUE(resource);
  EXPECT_EQ(resource->state, kRunning);
  EXPECT_EQ(resource->body, "new body");
  EXPECT_EQ(resource->update_time, change.resource->update_time);
  EXPECT_EQ(resource->create_time, TestJob(1).resource->create_time);
  EXPECT_THAT(resource->labels, ElementsAre(std::pair("b", "2")));
  EXPECT_EQ(store_->GetJob(JobName(1))->grant, "{}");
  const auto attempts = store_->Attempts("uid-1");
  ASSERT_EQ(attempts->size(), 2u);
  EXPECT_EQ((*attempts)[0].view, "running");
  EXPECT_EQ((*attempts)[0].launch, "");
  const auto events = store_->Events("uid-1", 1, 10);
  ASSERT_EQ(events->size(), 2u);
  EXPECT_EQ((*events)[0].sequence, 2);
  EXPECT_EQ((*events)[1].text, "three");
  EXPECT_EQ(store_->Events("uid-1", 0, 1)->size(), 1u);
  EXPECT_EQ(store_->Events("uid-1", 3, 10)->size(), 0u);

  // Lists by label find it where it was in time.
  const auto page = store_->ListResources({"customJobs", kParent, "labels.b=2", 0, ""});
  ASSERT_TRUE(page);
  EXPECT_EQ(page->resources.size(), 1u);

  change.resource.reset();
  change.job.lifecycle = "alone";
  ASSERT_TRUE(store_->SaveJob(change));
  EXPECT_EQ(store_->GetResource(JobName(1))->body, "new body");
  EXPECT_EQ(store_->GetJob(JobName(1))->lifecycle, "alone");
}

TEST_F(StoreTest, NamesAndUidsAreTakenOnce) {
  Open();
  ASSERT_TRUE(store_->CreateJob(TestJob(1)));
  const Status again = store_->CreateJob(TestJob(1));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kAlreadyExists);
  EXPECT_THAT(again.error().message, HasSubstr(JobName(1)));
  JobChange same_uid = TestJob(2);
  same_uid.job.job_uid = "uid-1";
  const Status uid_taken = store_->CreateJob(same_uid);
  ASSERT_FALSE(uid_taken);
  EXPECT_EQ(uid_taken.error().code, Code::kAlreadyExists);
  EXPECT_THAT(uid_taken.error().message, HasSubstr("uid-1"));
  EXPECT_FALSE(store_->GetResource(JobName(2)));  // its first half was undone
  EXPECT_EQ(store_->counts().resources, 1);
}

TEST_F(StoreTest, DeletedJobsStayDeleted) {
  Open();
  JobChange change = TestJob(1);
  change.resource->labels = {{"a", "1"}};
  change.attempts = {{"uid-1", 0, 0, 1, "v", "l"}};
  change.events = {{"uid-1", 0, Time(), false, "e"}};
  ASSERT_TRUE(store_->CreateJob(change));
  const OperationRecord operation = {JobName(1) + "/operations/7", std::string("\0op", 3)};
  ASSERT_TRUE(store_->DeleteJob(JobName(1), operation));

  for (const Code code :
       {store_->GetResource(JobName(1)).error().code, store_->GetJob(JobName(1)).error().code,
        store_->SaveJob(change).error().code,
        store_->DeleteJob(JobName(1), {"other", ""}).error().code,
        store_->GetOperation("other").error().code}) {
    EXPECT_EQ(code, Code::kNotFound);
  }
  EXPECT_TRUE(store_->Attempts("uid-1")->empty());
  EXPECT_TRUE(store_->Events("uid-1", 0, 10)->empty());
  EXPECT_TRUE(store_->ListResources({"customJobs", kParent, "", 0, ""})->resources.empty());
  EXPECT_TRUE(store_->ListResources({"customJobs", kParent, "labels:a", 0, ""})->resources.empty());
  EXPECT_EQ(store_->GetOperation(operation.name)->body, operation.body);
  EXPECT_EQ(store_->counts().resources, 0);
  ASSERT_TRUE(store_->CreateJob(TestJob(1)));
}

TEST_F(StoreTest, NotFoundNamesTheResource) {
  Open();
  EXPECT_THAT(store_->GetResource("projects/p/x").error().message, HasSubstr("projects/p/x"));
  EXPECT_THAT(store_->GetOperation("op/1").error().message, HasSubstr("op/1"));
}

TEST_F(StoreTest, ActiveJobsAreTheUnfinishedOldestFirst) {
  Open();
  for (int state = 0; state <= 11; ++state) {
    ASSERT_TRUE(store_->CreateJob(TestJob(100 - state, state)));
  }
  JobChange elsewhere = TestJob(1, kRunning);
  elsewhere.resource->parent = "projects/q/locations/europe-west4";
  elsewhere.resource->name = elsewhere.job.resource_name =
      elsewhere.resource->parent + "/customJobs/1";
  ASSERT_TRUE(store_->CreateJob(elsewhere));
  const auto active = store_->ActiveJobs();
  ASSERT_TRUE(active);
  std::vector<std::string> uids;
  for (const JobRecord& job : *active) uids.push_back(job.job_uid);
  // Updating 10, paused 8, cancelling 6, running 3, pending 2, queued 1, unspecified 0.
  EXPECT_THAT(uids, ElementsAre("uid-1", "uid-90", "uid-92", "uid-94", "uid-97", "uid-98", "uid-99",
                                "uid-100"));
}

TEST_F(StoreTest, CountsCommitsAndWrites) {
  Open();
  const auto before = store_->counts();
  ASSERT_TRUE(store_->CreateJob(TestJob(1)));
  ASSERT_TRUE(store_->CreateJob(TestJob(2)));
  ASSERT_FALSE(store_->CreateJob(TestJob(2)));
  EXPECT_EQ(store_->counts().written - before.written, 2);
  EXPECT_EQ(store_->counts().commits - before.commits, 3);
  EXPECT_EQ(store_->counts().resources, 2);
  Open();
  EXPECT_EQ(store_->counts().resources, 2);
}

// Follows page tokens to the end; fails on more pages than there can be.
std::vector<std::string> NamesOfAllPages(const Store& store, ListQuery query, size_t pages_max) {
  std::vector<std::string> names;
  for (size_t pages = 0; pages < pages_max; ++pages) {
    const auto page = store.ListResources(query);
    EXPECT_TRUE(page) << page.error().message;
    if (!page) return names;
    for (const Resource& resource : page->resources) names.push_back(resource.name);
    query.page_token = page->next_page_token;
    if (query.page_token.empty()) return names;
  }
  ADD_FAILURE() << "the list does not end";
  return names;
}

TEST_F(StoreTest, ListsNewestFirstThenByName) {
  Open();
  for (const int id : {3, 1, 2}) ASSERT_TRUE(store_->CreateJob(TestJob(id)));
  for (const int id : {7, 9, 8}) {  // all at one time
    JobChange change = TestJob(id);
    change.resource->create_time = TestJob(5).resource->create_time;
    ASSERT_TRUE(store_->CreateJob(change));
  }
  const std::vector<std::string> expected = {JobName(9), JobName(8), JobName(7),
                                             JobName(3), JobName(2), JobName(1)};
  for (const int page_size : {0, 1, 2, 3, 4, 6, 7, 1000, 1'000'000}) {
    const ListQuery query = {"customJobs", kParent, "", page_size, ""};
    EXPECT_EQ(NamesOfAllPages(*store_, query, 6), expected) << page_size;
  }
  EXPECT_TRUE(store_->ListResources({"customJobs", "projects/q", "", 0, ""})->resources.empty());
  EXPECT_TRUE(store_->ListResources({"models", kParent, "", 0, ""})->resources.empty());
}

TEST_F(StoreTest, ListsKeepTheirPlaceWhileJobsComeAndGo) {
  Open();
  for (int id = 1; id <= 6; ++id) ASSERT_TRUE(store_->CreateJob(TestJob(id)));
  ListQuery query = {"customJobs", kParent, "", 3, ""};
  const auto first = store_->ListResources(query);
  ASSERT_TRUE(first);
  ASSERT_TRUE(store_->CreateJob(TestJob(7)));                  // newer: not on a later page
  ASSERT_TRUE(store_->DeleteJob(JobName(4), {"op", "body"}));  // where the page ended
  query.page_token = first->next_page_token;
  EXPECT_THAT(NamesOfAllPages(*store_, query, 2), ElementsAre(JobName(3), JobName(2), JobName(1)));
}

TEST_F(StoreTest, PagesOfLargeJobsEndEarly) {
  Open();
  for (int id = 1; id <= 7; ++id) {
    JobChange change = TestJob(id);
    change.resource->body.assign(size_t{5} << 20, 'x');
    ASSERT_TRUE(store_->CreateJob(change));
  }
  const auto page = store_->ListResources({"customJobs", kParent, "", 0, ""});
  ASSERT_TRUE(page);
  EXPECT_EQ(page->resources.size(), 4u);
  EXPECT_EQ(NamesOfAllPages(*store_, {"customJobs", kParent, "", 0, ""}, 2).size(), 7u);
}

TEST_F(StoreTest, RefusesBadPages) {
  Open();
  for (int id = 1; id <= 4; ++id) ASSERT_TRUE(store_->CreateJob(TestJob(id)));
  const ListQuery query = {"customJobs", kParent, "state=JOB_STATE_PENDING", 2, ""};
  const std::string token = store_->ListResources(query)->next_page_token;
  ASSERT_FALSE(token.empty());
  EXPECT_EQ(token.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                    "0123456789-_"),
            std::string::npos);

  std::vector<ListQuery> bad(8, query);
  bad[0].page_size = -1;
  bad[1].page_token = "x";
  bad[2].page_token = "not a token!";
  bad[3].page_token = token.substr(0, token.size() - 1);
  bad[4].page_token = token;
  bad[4].filter = "state=JOB_STATE_RUNNING";
  bad[5].page_token = token;
  bad[5].parent = "projects/p/locations/europe-west4";
  bad[6].page_token = token;
  bad[6].kind = "hyperparameterTuningJobs";
  bad[7].filter = "stat=3";
  for (size_t i = 0; i < bad.size(); ++i) {
    const auto page = store_->ListResources(bad[i]);
    ASSERT_FALSE(page) << i;
    EXPECT_EQ(page.error().code, Code::kInvalidArgument) << i;
  }
  // Any damage is noticed. (The last letter may carry bits that no byte uses.)
  for (size_t i = 0; i + 1 < token.size(); ++i) {
    ListQuery damaged = query;
    damaged.page_token = token;
    damaged.page_token[i] = token[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(store_->ListResources(damaged)) << i;
  }
  ListQuery larger = query;
  larger.page_size = 50;
  larger.page_token = token;
  EXPECT_EQ(store_->ListResources(larger)->resources.size(), 2u);
}

TEST_F(StoreTest, RefusesWhatIsNotItsFile) {
  ASSERT_TRUE(WriteFileAtomic(file_, std::string(5000, 'x')));
  const auto opened = Store::Open(file_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kDataLoss) << opened.error().message;
  EXPECT_THAT(opened.error().message, HasSubstr(file_.string()));
  EXPECT_EQ(Store::Open(directory_ / "no/such/muster.db").error().code, Code::kNotFound);
}

constexpr int kThreads = 8;
constexpr int kJobsEach = 40;

TEST_F(StoreTest, ManyThreadsAtOnce) {
  Open();
  std::atomic<int> failures = 0;
  const auto work = [&](int thread) {
    for (int i = 0; i < kJobsEach; ++i) {
      const int id = thread * kJobsEach + i;
      JobChange change = TestJob(id);
      if (!store_->CreateJob(change)) ++failures;
      change.resource->state = kRunning;
      change.events = {{change.job.job_uid, 0, Time(), false, "running"}};
      if (!store_->SaveJob(change)) ++failures;
      if (store_->CreateJob(change)) ++failures;           // taken; spoils nobody's write
      const auto read = store_->GetResource(JobName(id));  // what was acknowledged is seen
      if (!read || read->state != kRunning) ++failures;
      if (i % 4 == 0 && !store_->DeleteJob(JobName(id), {JobName(id) + "/operations/1", ""})) {
        ++failures;
      }
      // Lists show whole jobs: none without its labels and all in order.
      const auto page = store_->ListResources({"customJobs", kParent, "", 20, ""});
      if (!page ||
          !std::ranges::is_sorted(page->resources, std::greater(), &Resource::create_time)) {
        ++failures;
      }
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(store_->counts().resources, kThreads * kJobsEach * 3 / 4);
  EXPECT_EQ(store_->counts().written, kThreads * kJobsEach * 9 / 4);
  EXPECT_EQ(NamesOfAllPages(*store_, {"customJobs", kParent, "", 0, ""}, 9).size(),
            size_t(kThreads * kJobsEach * 3 / 4));
  EXPECT_EQ(store_->Events("uid-1", 0, 10)->size(), 1u);
}

}  // namespace
}  // namespace muster::store
