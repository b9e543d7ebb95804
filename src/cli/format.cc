#include "cli/format.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include "cli/api.h"
#include "cli/dict_arg.h"
#include "cli/table.h"
#include "cli/yaml.h"

namespace muster::cli {
namespace {

using nlohmann::json;

constexpr std::string_view kBaseName = ".basename()";

std::string_view Trim(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// Goes down one step, "workerPoolSpecs" or "[0]", and drops it from the path.
const json& Step(const json& value, std::string_view& path) {
  if (path.starts_with('[')) {
    const size_t close = path.find(']');
    size_t index = 0;
    std::from_chars(path.data() + 1, path.data() + std::min(close, path.size()), index);
    path.remove_prefix(close == std::string_view::npos ? path.size() : close + 1);
    if (path.starts_with('.')) path.remove_prefix(1);
    if (value.is_array() && index < value.size()) return value[index];
    return ValueAt(json(), "");
  }
  const size_t end = path.find_first_of(".[");
  const std::string_view key = path.substr(0, end);
  path.remove_prefix(key.size());
  if (path.starts_with('.')) path.remove_prefix(1);
  return ValueAt(value, key);
}

std::string ScalarText(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";  // as gcloud has it
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string TextOf(const json& value) {
  std::string text;
  if (value.is_array()) {
    for (const json& item : value) text += (text.empty() ? "" : ";") + ScalarText(item);
    return text;
  }
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      text += (text.empty() ? "" : ";") + key + "=" + ScalarText(item);
    }
    return text;
  }
  return ScalarText(value);
}

// "jobSpec.network" → "NETWORK", "displayName" → "DISPLAY_NAME".
std::string Heading(std::string_view path) {
  if (path.ends_with(kBaseName)) path.remove_suffix(kBaseName.size());
  std::string heading;
  for (const char c : path.substr(path.rfind('.') + 1)) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isupper(byte) != 0 && !heading.empty()) heading += '_';
    heading += static_cast<char>(std::toupper(byte));
  }
  return heading;
}

std::string Values(const json& resource, const Format& format) {
  std::string line;
  for (size_t i = 0; i < format.fields.size(); ++i) {
    if (i > 0) line += '\t';
    line += FieldText(resource, format.fields[i]);
  }
  return line + "\n";
}

std::optional<double> AsNumber(const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || std::isnan(number)) return std::nullopt;
  return number;
}

// Less than, equal to or greater than 0. Numbers come before other texts.
int Compare(const std::string& a, const std::string& b) {
  const auto left = AsNumber(a);
  const auto right = AsNumber(b);
  if (left && right) return *left < *right ? -1 : *left > *right ? 1 : 0;
  if (left.has_value() != right.has_value()) return left ? -1 : 1;
  return a.compare(b);
}

Table MakeTable(const std::vector<json>& resources, const Format& format) {
  Table table;
  for (const std::string& field : format.fields) table.header.push_back(Heading(field));
  for (const json& resource : resources) {
    auto& row = table.rows.emplace_back();
    for (const std::string& field : format.fields) row.push_back(FieldText(resource, field));
  }
  return table;
}

}  // namespace

Result<Format> ParseFormat(std::string_view text) {
  using Kind = Format::Kind;
  text = Trim(text);
  if (text.empty() || text == "default" || text == "table") return Format{Kind::kDefault, {}};
  if (text == "json") return Format{Kind::kJson, {}};
  if (text == "yaml") return Format{Kind::kYaml, {}};
  const bool is_value = text.starts_with("value(");
  if ((is_value || text.starts_with("table(")) && text.ends_with(')')) {
    Format format{is_value ? Kind::kValue : Kind::kTable, {}};
    text.remove_prefix(std::string_view("value(").size());
    text.remove_suffix(1);
    for (const std::string& field : SplitNonEmpty(text, ',')) {
      format.fields.emplace_back(Trim(field));
    }
    if (!format.fields.empty()) return format;
  }
  return Fail(Code::kInvalidArgument,
              "Invalid value for [--format]: [{}]; valid are json, yaml, value(FIELD,…) and "
              "table(FIELD,…)",
              text);
}

std::string FieldText(const json& resource, std::string_view path) {
  const bool base_name = path.ends_with(kBaseName);
  if (base_name) path.remove_suffix(kBaseName.size());
  const json* value = &resource;
  while (!path.empty()) value = &Step(*value, path);
  const std::string text = TextOf(*value);
  return base_name ? text.substr(text.rfind('/') + 1) : text;
}

std::string FormatResource(const json& resource, const Format& format) {
  switch (format.kind) {
    case Format::Kind::kJson:
      return resource.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
    case Format::Kind::kValue:
      return Values(resource, format);
    case Format::Kind::kTable:
      return FormatTable(MakeTable(std::vector<json>(1, resource), format));
    case Format::Kind::kDefault:
    case Format::Kind::kYaml:
      break;
  }
  return ToYaml(resource);
}

std::string FormatResources(const std::vector<json>& resources, const Format& format) {
  std::string text;
  switch (format.kind) {
    case Format::Kind::kJson:
      return json(resources).dump(2, ' ', false, json::error_handler_t::replace) + "\n";
    case Format::Kind::kValue:
      for (const json& resource : resources) text += Values(resource, format);
      return text;
    case Format::Kind::kTable:
      return FormatTable(MakeTable(resources, format));
    case Format::Kind::kDefault:
    case Format::Kind::kYaml:
      break;
  }
  for (const json& resource : resources) text += "---\n" + ToYaml(resource);
  return text;
}

void SortResources(std::vector<json>& resources, std::string_view sort_by) {
  // Texts are taken out once; the index makes the order stable.
  struct Key {
    std::vector<std::string> texts;
    size_t index = 0;
  };
  std::vector<std::string> fields = SplitNonEmpty(sort_by, ',');
  std::vector<bool> descending;
  for (std::string& field : fields) {
    field = Trim(field);
    descending.push_back(field.starts_with('~'));
    if (descending.back()) field.erase(0, 1);
  }
  std::vector<Key> keys(resources.size());
  for (size_t i = 0; i < resources.size(); ++i) {
    keys[i].index = i;
    for (const std::string& field : fields) keys[i].texts.push_back(FieldText(resources[i], field));
  }
  std::ranges::sort(keys, [&descending](const Key& a, const Key& b) {
    for (size_t i = 0; i < descending.size(); ++i) {
      const int order = Compare(a.texts[i], b.texts[i]);
      if (order != 0) return descending[i] ? order > 0 : order < 0;
    }
    return a.index < b.index;
  });
  std::vector<json> sorted;
  sorted.reserve(resources.size());
  for (const Key& key : keys) sorted.push_back(std::move(resources[key.index]));
  resources = std::move(sorted);
}

}  // namespace muster::cli
