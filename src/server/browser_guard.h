// Keeps web pages away from the API.
//
// The API runs programs and asks for no password, since only this machine's users reach it. A page
// in one of these users' browsers could reach it too: by a form or fetch() to 127.0.0.1, or through
// a DNS name of its own that it lets point to 127.0.0.1. So what a browser sends is only served if
// it comes from a page that this server itself delivered, under a name that is this server's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace muster::server {

struct BrowserHeaders {
  std::string_view host;            // "127.0.0.1:8080"
  std::string_view origin;          // "http://127.0.0.1:8080"; empty: none
  std::string_view sec_fetch_site;  // "cross-site", "same-origin", "none"; empty: none
  std::string_view user_agent;
};

// PERMISSION_DENIED says what was wrong. `own_names`: host names under which people open this
// server, beside addresses and localhost.
Status CheckBrowser(const BrowserHeaders& headers, const std::vector<std::string>& own_names);

}  // namespace muster::server
