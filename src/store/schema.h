// The tables, as a list of migrations: a file's user_version says how many of them it has had.
#pragma once

#include <span>

#include "base/error.h"
#include "store/database.h"

namespace muster::store {

// SQL scripts in the order in which they are carried out, each in a transaction of its own. A
// script that has been released is never changed; what it lacks comes in a new one behind it.
std::span<const char* const> Migrations();

// Brings the file up to date. FAILED_PRECONDITION if a newer version or another program wrote it.
Status Migrate(Database& database, std::span<const char* const> migrations);

// Room within the file: some MB of pages that hold nothing. Given up, they are where the file's
// next pages go, so that neither what is written nor the checkpoints need the disk to have room.
Status FillReserve(Database& database);
Status GiveUpReserve(Database& database);

}  // namespace muster::store
