#include "server/browser_guard.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>

#include "base/utf8.h"

namespace muster::server {
namespace {

bool EqualNoCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// "[::1]:8080" → "::1", "localhost:8080" → "localhost"
std::string HostName(std::string_view host) {
  if (host.starts_with('[')) return std::string(host.substr(1, host.find(']') - 1));
  return std::string(host.substr(0, host.rfind(':')));
}

bool IsOwnName(const std::string& name, const std::vector<std::string>& own_names) {
  unsigned char address[16];
  if (inet_pton(AF_INET, name.c_str(), address) == 1) return true;
  if (inet_pton(AF_INET6, name.c_str(), address) == 1) return true;
  if (EqualNoCase(name, "localhost")) return true;
  return std::ranges::any_of(own_names,
                             [&](const std::string& own) { return EqualNoCase(own, name); });
}

}  // namespace

Status CheckBrowser(const BrowserHeaders& headers, const std::vector<std::string>& own_names) {
  const bool browser = !headers.origin.empty() || headers.user_agent.starts_with("Mozilla/");
  if (!browser) return {};
  if (headers.sec_fetch_site == "cross-site" || headers.sec_fetch_site == "same-site") {
    return Fail(Code::kPermissionDenied,
                "A page of another site sent this request; only this server's own pages may");
  }
  if (!headers.origin.empty()) {
    std::string_view origin = headers.origin;
    for (const std::string_view scheme : {"http://", "https://"}) {
      if (origin.starts_with(scheme)) origin.remove_prefix(scheme.size());
    }
    if (!EqualNoCase(origin, headers.host)) {
      return Fail(Code::kPermissionDenied,
                  "A page of {} sent this request; only this server's own pages may",
                  ToValidUtf8(headers.origin.substr(0, 200)));
    }
  }
  if (!IsOwnName(HostName(headers.host), own_names)) {
    return Fail(Code::kPermissionDenied,
                "A browser asked for this server as \"{}\", which is not one of its names; use "
                "its address or localhost",
                ToValidUtf8(headers.host.substr(0, 200)));
  }
  return {};
}

}  // namespace muster::server
