// Reading and writing the records of store.h as rows. Each function runs within its caller's
// transaction.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "store/database.h"
#include "store/store.h"

namespace muster::store {

// ALREADY_EXISTS if the resource's name or the job's uid is taken.
Status InsertJob(Database& database, const JobChange& change);
// NOT_FOUND if the job is not there (any more).
Status UpdateJob(Database& database, const JobChange& change);
Status DeleteResource(Database& database, const std::string& name);
Status PutOperation(Database& database, const OperationRecord& operation);

Result<Resource> ReadResource(Database& database, const std::string& name);
Result<ListPage> ReadPage(Database& database, const ListQuery& query);
Result<JobRecord> ReadJob(Database& database, const std::string& resource_name);
Result<std::vector<JobRecord>> ReadActiveJobs(Database& database);
Result<std::vector<AttemptRecord>> ReadAttempts(Database& database, const std::string& job_uid);
Result<std::vector<EventRecord>> ReadEvents(Database& database, const std::string& job_uid,
                                            int64_t after, int limit);
Result<OperationRecord> ReadOperation(Database& database, const std::string& name);
Result<int64_t> CountResources(Database& database);

}  // namespace muster::store
