// The text form: "1" (its version), then for each source "~<source>_<offset>" and, for each line
// that began before the offset, "_<stream><bytes back to its beginning>". Numbers are in base 36.
// "workerpool0-1/2" is written 0-1.2, "service" s, anything else k and its bytes in hexadecimal.
#include <charconv>
#include <limits>

#include "base/check.h"
#include "logs/merge.h"

namespace muster::logs {

namespace {
constexpr std::string_view kVersion = "1";
constexpr std::string_view kStreamLetters = "oef";
constexpr size_t kTextBytesMax = 256 * 1024;

std::string ToBase36(int64_t number) {
  char digits[16];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, number, 36);
  MUSTER_CHECK(error == std::errc());
  return std::string(digits, end);
}

template <typename Number>
bool ReadNumber(std::string_view text, Number& number, int base) {
  if (text.empty() || text.front() == '-') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size();
}

// Takes the text before the separator, and drops both.
std::string_view TakeUntil(std::string_view& rest, char separator) {
  const size_t end = rest.find(separator);
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return taken;
}

bool IsPlainNumber(std::string_view text) {
  unsigned value = 0;
  return ReadNumber(text, value, 10) && text == std::to_string(value);
}

std::string EncodeKey(std::string_view key) {
  if (key == "service") return "s";
  std::string_view rest = key;
  if (rest.starts_with("workerpool")) {
    rest.remove_prefix(std::string_view("workerpool").size());
    const std::string_view pool = TakeUntil(rest, '-');
    const std::string_view index = TakeUntil(rest, '/');
    if (IsPlainNumber(pool) && IsPlainNumber(index) && IsPlainNumber(rest)) {
      return fmt::format("{}-{}.{}", pool, index, rest);
    }
  }
  std::string encoded = "k";
  for (const char c : key) encoded += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return encoded;
}

bool DecodeKey(std::string_view text, std::string& key) {
  if (text == "s") {
    key = "service";
    return true;
  }
  if (text.starts_with('k')) {
    text.remove_prefix(1);
    if (text.size() % 2 != 0) return false;
    for (; !text.empty(); text.remove_prefix(2)) {
      unsigned char byte = 0;
      if (!ReadNumber(text.substr(0, 2), byte, 16)) return false;
      key.push_back(char(byte));
    }
    return true;
  }
  const std::string_view pool = TakeUntil(text, '-');
  const std::string_view index = TakeUntil(text, '.');
  if (!IsPlainNumber(pool) || !IsPlainNumber(index) || !IsPlainNumber(text)) return false;
  key = fmt::format("workerpool{}-{}/{}", pool, index, text);
  return true;
}

bool DecodePosition(std::string_view text, Cursor::Position& position) {
  if (text.ends_with('_') || !ReadNumber(TakeUntil(text, '_'), position.offset, 36)) return false;
  while (!text.empty()) {
    const std::string_view pending = TakeUntil(text, '_');
    if (pending.empty()) return false;
    const size_t stream = kStreamLetters.find(pending.front());
    int64_t back = 0;
    if (stream == std::string_view::npos || !ReadNumber(pending.substr(1), back, 36) || back <= 0 ||
        back > position.offset || position.pending[stream] >= 0) {
      return false;
    }
    position.pending[stream] = position.offset - back;
  }
  return true;
}
}  // namespace

Result<Cursor> Cursor::Parse(std::string_view text) {
  Cursor cursor;
  if (text.empty()) return cursor;
  const auto bad = Fail(Code::kInvalidArgument,
                        "this is no position in a log: use one that was returned before, or none");
  if (text.size() > kTextBytesMax) return bad;
  std::string_view rest = text;
  if (rest.ends_with('~') || TakeUntil(rest, '~') != kVersion) return bad;
  while (!rest.empty()) {
    std::string_view entry = TakeUntil(rest, '~');
    std::string key;
    Position position;
    if (!DecodeKey(TakeUntil(entry, '_'), key) || !DecodePosition(entry, position)) return bad;
    cursor.Set(key, position);
  }
  return cursor;
}

std::string Cursor::ToText() const {
  std::string text(kVersion);
  for (const auto& [key, position] : positions_) {
    text += fmt::format("~{}_{}", EncodeKey(key), ToBase36(position.offset));
    for (size_t stream = 0; stream < position.pending.size(); ++stream) {
      if (position.pending[stream] < 0) continue;
      text += fmt::format("_{}{}", kStreamLetters[stream],
                          ToBase36(position.offset - position.pending[stream]));
    }
  }
  return text;
}

int64_t Cursor::Offset(const std::string& key) const { return Get(key).offset; }

void Cursor::Set(const std::string& key, int64_t offset) {
  Set(key, Position{offset, {-1, -1, -1}});
}

Cursor::Position Cursor::Get(const std::string& key) const {
  const auto it = positions_.find(key);
  return it == positions_.end() ? Position{} : it->second;
}

void Cursor::Set(const std::string& key, const Position& position) {
  MUSTER_CHECK(position.offset >= 0);
  if (position.offset == 0) {
    positions_.erase(key);
  } else {
    positions_[key] = position;
  }
}

}  // namespace muster::logs
