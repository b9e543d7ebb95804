// Page tokens: a position in a list, in letters that say nothing to the client.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "store/filter_sql.h"
#include "store/store.h"

namespace muster::store {

// The token holds a checksum of the query's kind, parent and filter as well.
std::string MakePageToken(const ListQuery& query, const ListPosition& position);

// INVALID_ARGUMENT if the token is damaged, or comes from another query. page_size may differ.
Result<ListPosition> ReadPageToken(const ListQuery& query);

}  // namespace muster::store
