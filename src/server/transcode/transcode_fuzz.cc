// Any request line and body through the routes, and back to JSON: "METHOD target\nbody".
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "server/fake_job_control.h"
#include "server/field_behavior.h"
#include "server/job_service.h"
#include "server/operations_service.h"
#include "server/transcode/json.h"
#include "server/transcode/transcoder.h"

namespace muster::server {
namespace {

MethodTable* NewMethods() {
  auto* const methods = new MethodTable;
  static FakeJobControl control;  // no handler runs
  AddJobService(*methods, control);
  AddOperationsService(*methods, control);
  return methods;
}

}  // namespace
}  // namespace muster::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::server;
  static const MethodTable* const methods = NewMethods();
  static const Transcoder* const transcoder = new Transcoder(*methods, OfficialTranscoderOptions());
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view line = input.substr(0, input.find('\n'));
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return 0;
  const auto call =
      transcoder->Read({.http_method = line.substr(0, space),
                        .target = line.substr(space + 1),
                        .body = line.size() < size ? input.substr(line.size() + 1) : ""});
  if (!call) {
    MUSTER_CHECK(call.error().status >= 400 && !call.error().error.message.empty());
    return 0;
  }
  ClearOutputOnly(*call->request);
  MUSTER_CHECK(call->request->SerializeAsString().size() == call->request->ByteSizeLong());
  (void)WriteJson(*call->request, call->style);
  return 0;
}
