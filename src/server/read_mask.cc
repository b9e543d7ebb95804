#include "server/read_mask.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/field_mask.pb.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"

namespace muster::server {
namespace {

namespace pb = google::protobuf;

// The fields to keep; a leaf keeps all below it.
struct Tree {
  std::map<std::string, Tree, std::less<>> children;
};

pb::FieldMask MaskOf(const pb::Message& request) {
  const auto* const field = request.GetDescriptor()->FindFieldByName("read_mask");
  if (field == nullptr || field->message_type() != pb::FieldMask::descriptor() ||
      !request.GetReflection()->HasField(request, field)) {
    return {};
  }
  pb::FieldMask mask;
  mask.CopyFrom(request.GetReflection()->GetMessage(request, field));
  return mask;
}

// A list's answer holds its resources in its only repeated field of messages, beside a page token.
const pb::FieldDescriptor* ResourcesOf(const pb::Descriptor& response) {
  if (response.FindFieldByName("next_page_token") == nullptr) return nullptr;
  for (int i = 0; i < response.field_count(); ++i) {
    const auto* const field = response.field(i);
    if (field->is_repeated() && field->message_type() != nullptr) return field;
  }
  return nullptr;
}

std::vector<std::string> SplitFieldPath(std::string_view path) {
  std::vector<std::string> names;
  while (true) {
    const size_t end = path.find_first_of("./");
    names.emplace_back(path.substr(0, end));
    if (end == std::string_view::npos) return names;
    path.remove_prefix(end + 1);
  }
}

bool Exists(const pb::Descriptor* type, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto* const field = type == nullptr ? nullptr : type->FindFieldByName(name);
    if (field == nullptr) return false;
    type = field->is_map() ? nullptr : field->message_type();
  }
  return !names.empty();
}

// Where the path's names begin in the tree of the whole answer: a list's resource paths are put
// below the list's field. Empty: no such path.
std::vector<std::string> InAnswer(const pb::Descriptor& response, std::string_view path) {
  std::vector<std::string> names = SplitFieldPath(path);
  const auto* const resources = ResourcesOf(response);
  if (resources != nullptr && Exists(resources->message_type(), names)) {
    names.insert(names.begin(), resources->name());
    return names;
  }
  if (Exists(&response, names)) return names;
  return {};
}

void Trim(pb::Message& message, const Tree& keep) {
  const auto& reflection = *message.GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const auto* field : fields) {
    const auto found = keep.children.find(field->name());
    if (found == keep.children.end()) {
      reflection.ClearField(&message, field);
    } else if (found->second.children.empty() || field->message_type() == nullptr) {
      continue;
    } else if (field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        Trim(*reflection.MutableRepeatedMessage(&message, field, i), found->second);
      }
    } else {
      Trim(*reflection.MutableMessage(&message, field), found->second);
    }
  }
}

bool KeepsAll(const pb::FieldMask& mask) {
  return mask.paths().empty() || std::ranges::find(mask.paths(), "*") != mask.paths().end();
}

}  // namespace

Status CheckReadMask(const pb::Message& request, const pb::Descriptor& response) {
  const pb::FieldMask mask = MaskOf(request);
  if (KeepsAll(mask)) return {};
  for (const std::string& path : mask.paths()) {
    if (InAnswer(response, path).empty()) {
      return Fail(Code::kInvalidArgument,
                  "Invalid value at 'read_mask' (type.googleapis.com/google.protobuf.FieldMask), "
                  "\"{}\": the answer has no such field",
                  ToValidUtf8(path));
    }
  }
  return {};
}

void ApplyReadMask(const pb::Message& request, pb::Message& response) {
  const pb::FieldMask mask = MaskOf(request);
  if (KeepsAll(mask)) return;
  Tree keep;
  if (ResourcesOf(*response.GetDescriptor()) != nullptr) keep.children["next_page_token"];
  for (const std::string& path : mask.paths()) {
    Tree* tree = &keep;
    bool whole = false;
    for (const std::string& name : InAnswer(*response.GetDescriptor(), path)) {
      const bool known = tree->children.contains(name);
      tree = &tree->children[name];
      whole = known && tree->children.empty();
      if (whole) break;  // a shorter path keeps all of it already
    }
    if (!whole) tree->children.clear();
  }
  Trim(response, keep);
}

}  // namespace muster::server
