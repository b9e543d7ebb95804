#include "cli/yaml.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>

namespace muster::cli {
namespace {

using nlohmann::json;

// Fields that the API types as text, and what lies below them.
constexpr auto kTextFields = std::to_array<std::string_view>(
    {"args", "command", "labels", "value", "name", "displayName", "display_name", "imageUri",
     "image_uri", "packageUris", "package_uris", "pythonModule", "python_module", "jobDir"});

constexpr int kNodesMax = 200'000;
constexpr int kDepthMax = 100;

bool IsTextField(std::string_view key) {
  return std::ranges::find(kTextFields, key) != kTextFields.end();
}

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text, int base) {
  Number value{};
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [rest, error] = std::from_chars(begin, end, value, base);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

std::optional<json> PlainInteger(std::string_view text) {
  int base = 10;
  std::string_view digits = text;
  if (text.starts_with("0x")) base = 16;
  if (text.starts_with("0o")) base = 8;
  if (base != 10) {
    digits.remove_prefix(2);
    if (digits.starts_with('-')) return std::nullopt;
  }
  if (base == 10 && digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.starts_with("+") || (text.starts_with('+') && digits.starts_with('-'))) {
    return std::nullopt;
  }
  if (const auto value = ParseNumber<int64_t>(digits, base)) return json(*value);
  if (const auto value = ParseNumber<uint64_t>(digits, base)) return json(*value);
  return std::nullopt;
}

// The core schema's floats: digits with a point or an exponent. "1e5" is one, "1_000" is text.
std::optional<json> PlainFloat(std::string_view text) {
  std::string_view digits = text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  const size_t first = digits.starts_with('-') ? 1 : 0;
  if (first >= digits.size()) return std::nullopt;
  const bool starts = (digits[first] >= '0' && digits[first] <= '9') || digits[first] == '.';
  if (!starts || (first == 1 && text.starts_with('+'))) return std::nullopt;
  double value = 0;
  const char* begin = digits.data();
  const char* end = begin + digits.size();
  const auto [rest, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || rest != end || !std::isfinite(value)) return std::nullopt;
  return json(value);
}

json PlainScalar(std::string_view text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") {
    return nullptr;
  }
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (auto integer = PlainInteger(text)) return *integer;
  if (auto number = PlainFloat(text)) return *number;
  return std::string(text);
}

std::unexpected<Error> FailAt(const YAML::Mark& mark, std::string_view what) {
  if (mark.is_null()) return Fail(Code::kInvalidArgument, "{}", what);
  return Fail(Code::kInvalidArgument, "line {}, column {}: {}", mark.line + 1, mark.column + 1,
              what);
}

class Converter {
 public:
  Result<json> Convert(const YAML::Node& node, bool as_text, int depth) {
    if (++nodes_ > kNodesMax) return FailAt(node.Mark(), "the document is too large");
    if (depth > kDepthMax) return FailAt(node.Mark(), "the document is nested too deeply");
    switch (node.Type()) {
      case YAML::NodeType::Sequence:
        return ConvertSequence(node, as_text, depth);
      case YAML::NodeType::Map:
        return ConvertMap(node, as_text, depth);
      case YAML::NodeType::Scalar:
        // yaml-cpp tags quoted scalars with "!", plain ones with "?".
        if (node.Tag() != "?" && node.Tag() != "") return json(node.Scalar());
        if (as_text) return json(node.Scalar());
        return PlainScalar(node.Scalar());
      case YAML::NodeType::Null:
      case YAML::NodeType::Undefined:
        break;
    }
    return json(nullptr);
  }

 private:
  Result<json> ConvertSequence(const YAML::Node& node, bool as_text, int depth) {
    json list = json::array();
    for (const YAML::Node& item : node) {
      MUSTER_ASSIGN(json value, Convert(item, as_text, depth + 1));
      list.push_back(std::move(value));
    }
    return list;
  }

  Result<json> ConvertMap(const YAML::Node& node, bool as_text, int depth) {
    json map = json::object();
    for (const auto& pair : node) {
      if (!pair.first.IsScalar()) return FailAt(pair.first.Mark(), "a key must be a plain word");
      const std::string& key = pair.first.Scalar();
      const bool text = as_text || (IsTextField(key) && !pair.second.IsMap()) || key == "labels";
      MUSTER_ASSIGN(json value, Convert(pair.second, text, depth + 1));
      if (map.contains(key)) return FailAt(pair.first.Mark(), fmt::format("duplicate key {}", key));
      map[key] = std::move(value);
    }
    return map;
  }

  int nodes_ = 0;
};

// JSON's numbers in text fields, as ParseDocument promises.
void NumbersToText(json& value, bool as_text) {
  if (value.is_object()) {
    for (auto& [key, item] : value.items()) {
      NumbersToText(item, as_text || (IsTextField(key) && !item.is_object()) || key == "labels");
    }
  } else if (value.is_array()) {
    for (json& item : value) NumbersToText(item, as_text);
  } else if (as_text && (value.is_number() || value.is_boolean())) {
    value = value.dump();
  }
}

bool LooksLikeJson(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t\r\n");
  return start != std::string_view::npos && text[start] == '{' && json::accept(text);
}

// --- writing ---

// Whether `text` may stand without quotes. Narrower than YAML allows, so plainly right.
bool IsPlain(std::string_view text) {
  if (text.empty() || text.front() == ' ' || text.back() == ' ') return false;
  if (std::string_view("?:,[]{}#&*!|>'\"%@`=<").find(text.front()) != std::string_view::npos) {
    return false;
  }
  // "-x" and "--x" are words; "- x" is a list, "---" and "..." divide documents.
  if (text == "-" || text.starts_with("- ") || text.starts_with("---") || text.starts_with("...")) {
    return false;
  }
  for (const unsigned char c : text) {
    if (c < 0x20 || c == 0x7f || c >= 0x80) return false;
  }
  if (text.find(": ") != std::string_view::npos || text.find(" #") != std::string_view::npos ||
      text.back() == ':') {
    return false;
  }
  // Words that older YAML readers take for booleans.
  for (const std::string_view word : {"y", "n", "yes", "no", "on", "off"}) {
    if (std::ranges::equal(text, word, [](char a, char b) { return (a | 0x20) == b; })) {
      return false;
    }
  }
  if (text.find_first_not_of("0123456789+-_.:eExXoO") == std::string_view::npos) return false;
  return PlainScalar(text).is_string();
}

bool IsPrintableAsciiOrUtf8(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c >= 0x20 && c != 0x7f; }) &&
         json::accept(json(text).dump(-1, ' ', false, json::error_handler_t::replace)) &&
         text.find("\xC2\x85") == std::string_view::npos &&      // next line
         text.find("\xE2\x80\xA8") == std::string_view::npos &&  // line separator
         text.find("\xE2\x80\xA9") == std::string_view::npos &&  // paragraph separator
         text.find("\xEF\xBB\xBF") == std::string_view::npos;    // byte order mark
}

std::string QuoteYaml(std::string_view text) {
  if (IsPlain(text)) return std::string(text);
  if (IsPrintableAsciiOrUtf8(text)) {
    std::string quoted = "'";
    for (const char c : text) {
      quoted += c;
      if (c == '\'') quoted += '\'';
    }
    return quoted + "'";
  }
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

// A text of several lines as a literal block, which people can read; only where nothing in it
// needs an escape.
bool FitsLiteralBlock(std::string_view text) {
  if (text.find('\n') == std::string_view::npos || text.front() == '\n' || text.front() == ' ' ||
      text.front() == '\t' || text.ends_with("\n\n")) {
    return false;
  }
  return std::ranges::all_of(
      text, [](unsigned char c) { return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\t'; });
}

class Writer {
 public:
  void Write(const json& value, int indent) {
    if (value.is_object() && !value.empty()) {
      bool first = true;
      for (const auto& [key, item] : value.items()) {
        if (!first) Indent(indent);
        first = false;
        text_ += QuoteYaml(key);
        text_ += ':';
        WriteAfterKey(item, indent);
      }
    } else if (value.is_array() && !value.empty()) {
      bool first = true;
      for (const json& item : value) {
        if (!first) Indent(indent);
        first = false;
        text_ += "- ";
        Write(item, indent + 2);
      }
    } else {
      WriteScalar(value, indent);
    }
  }

  std::string Take() { return std::move(text_); }

 private:
  void Indent(int indent) { text_.append(indent, ' '); }

  void WriteAfterKey(const json& item, int indent) {
    if (item.is_object() && !item.empty()) {
      text_ += '\n';
      Indent(indent + 2);
      Write(item, indent + 2);
    } else if (item.is_array() && !item.empty()) {
      text_ += '\n';
      Indent(indent);  // gcloud does not indent a list under its key
      Write(item, indent);
    } else {
      text_ += ' ';
      WriteScalar(item, indent + 2);
    }
  }

  void WriteScalar(const json& value, int indent) {
    if (!value.is_string()) {
      text_ += value.dump();
    } else if (const auto& text = value.get_ref<const std::string&>(); FitsLiteralBlock(text)) {
      WriteLiteralBlock(text, std::max(indent, 2));
      return;
    } else {
      text_ += QuoteYaml(text);
    }
    text_ += '\n';
  }

  void WriteLiteralBlock(std::string_view text, int indent) {
    const bool ends_with_newline = text.ends_with('\n');
    text_ += ends_with_newline ? "|\n" : "|-\n";
    if (ends_with_newline) text.remove_suffix(1);
    while (true) {
      const size_t end = text.find('\n');
      if (end != 0 && !text.empty()) Indent(indent);
      text_ += text.substr(0, end);
      text_ += '\n';
      if (end == std::string_view::npos) return;
      text.remove_prefix(end + 1);
    }
  }

  std::string text_;
};

}  // namespace

Result<json> ParseDocument(std::string_view text) {
  if (LooksLikeJson(text)) {
    json value = json::parse(text);
    NumbersToText(value, false);
    return value;
  }
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.empty()) return json(nullptr);
    if (documents.size() > 1) {
      return FailAt(documents[1].Mark(), "there is more than one document; give one");
    }
    return Converter().Convert(documents[0], false, 0);
  } catch (const YAML::Exception& error) {
    return FailAt(error.mark, error.msg);
  }
}

std::string ToYaml(const json& value) {
  Writer writer;
  writer.Write(value, 0);
  return writer.Take();
}

}  // namespace muster::cli
