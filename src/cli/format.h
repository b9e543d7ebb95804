// --format, --filter's companions: how resources are printed.
//
//   json | yaml | value(FIELD, …) | table(FIELD, …) | default
//
// A FIELD is a path: "state", "jobSpec.workerPoolSpecs[0].replicaCount", "name.basename()".
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace muster::cli {

struct Format {
  enum class Kind { kDefault, kJson, kYaml, kValue, kTable };
  Kind kind = Kind::kDefault;
  std::vector<std::string> fields;  // of kValue and kTable
};

// INVALID_ARGUMENT for anything else. An empty text is kDefault.
Result<Format> ParseFormat(std::string_view text);

// One resource; kDefault is YAML. value() separates fields by tabs.
std::string FormatResource(const nlohmann::json& resource, const Format& format);
// Several: a JSON list, YAML documents, lines, or a table. Not for kDefault, which differs by kind
// of resource.
std::string FormatResources(const std::vector<nlohmann::json>& resources, const Format& format);

// What `path` leads to, as text: lists joined by ";", mappings as "k=v;…", "" if there is nothing.
std::string FieldText(const nlohmann::json& resource, std::string_view path);

// Sorts by comma-separated fields, "~" in front for descending; numbers as numbers. Stable.
void SortResources(std::vector<nlohmann::json>& resources, std::string_view sort_by);

}  // namespace muster::cli
