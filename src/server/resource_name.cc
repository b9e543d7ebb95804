#include "server/resource_name.h"

#include <algorithm>

#include "base/utf8.h"

namespace muster::server {
namespace {

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-._~:@").find(c) != std::string_view::npos;
}

std::string_view TakeSegment(std::string_view& path) {
  const std::string_view segment = path.substr(0, path.find('/'));
  path.remove_prefix(std::min(path.size(), segment.size() + 1));
  return segment;
}

bool HasForm(std::string_view name, std::string_view pattern) {
  if (std::ranges::count(name, '/') != std::ranges::count(pattern, '/')) return false;
  while (!pattern.empty()) {
    const std::string_view wanted = TakeSegment(pattern);
    const std::string_view segment = TakeSegment(name);
    if (wanted != "*" && segment != wanted) return false;
    if (segment.empty() || segment == "." || segment == "..") return false;
    if (!std::ranges::all_of(segment, IsNameCharacter)) return false;
  }
  return true;
}

}  // namespace

Status CheckName(std::string_view field, std::string_view name, std::string_view pattern) {
  if (name.size() <= 1024 && HasForm(name, pattern)) return {};
  return Fail(Code::kInvalidArgument, "Invalid value for '{}': \"{}\" is not of the form {}", field,
              ToValidUtf8(name.substr(0, 1024)), pattern);
}

}  // namespace muster::server
