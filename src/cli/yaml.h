// YAML and JSON documents as JSON values, and JSON values as YAML in gcloud's style.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace muster::cli {

// Reads one YAML (or JSON) document of an API resource.
//
// Scalars: quoted ones are strings; plain ones follow YAML 1.2's core schema (null, true, 12, 0x1f,
// 0.5, .inf is refused), else they are strings. Where the API wants text (args, command, labels, an
// env value, …) a plain number or boolean is kept as it was written: `args: [--lr, 0.10]` gives
// "0.10" (null stays null). Duplicate keys, several documents and documents that explode through
// aliases are INVALID_ARGUMENT, with the line.
Result<nlohmann::json> ParseDocument(std::string_view text);

// Block style, two spaces, keys in alphabetical order, strings quoted where they would read as
// something else. ParseDocument(ToYaml(x)) == x for every resource. Ends with a newline.
std::string ToYaml(const nlohmann::json& value);

}  // namespace muster::cli
