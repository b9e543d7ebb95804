// Any template, any path: the first line is the template, the rest the path.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "server/transcode/path_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::server;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = input.find('\n');
  const auto pattern = PathTemplate::Parse(input.substr(0, line));
  if (!pattern || line == std::string_view::npos) return 0;
  const auto path = SplitUrlPath(input.substr(line + 1));
  if (!path) return 0;
  const auto first = pattern->Match(*path);
  const auto second = pattern->Match(*path);
  MUSTER_CHECK(first == second);
  return 0;
}
