#include "server/field_behavior.h"

#include <google/api/field_behavior.pb.h>
#include <google/protobuf/descriptor.h>

#include <vector>

namespace muster::server {
namespace {

bool IsOutputOnly(const google::protobuf::FieldDescriptor& field) {
  const auto& options = field.options();
  for (int i = 0; i < options.ExtensionSize(google::api::field_behavior); ++i) {
    if (options.GetExtension(google::api::field_behavior, i) == google::api::OUTPUT_ONLY) {
      return true;
    }
  }
  return false;
}

}  // namespace

void ClearOutputOnly(google::protobuf::Message& request) {
  const auto& reflection = *request.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(request, &fields);
  for (const auto* field : fields) {
    if (IsOutputOnly(*field)) {
      reflection.ClearField(&request, field);
    } else if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE ||
               field->is_map()) {
      continue;
    } else if (field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(request, field); ++i) {
        ClearOutputOnly(*reflection.MutableRepeatedMessage(&request, field, i));
      }
    } else {
      ClearOutputOnly(*reflection.MutableMessage(&request, field));
    }
  }
}

}  // namespace muster::server
