#include "store/page_token.h"

#include <array>
#include <cstdint>
#include <optional>

// Version byte, checksum (8 bytes), create time (8 bytes), name; integers little-endian; all in
// URL-safe base64 without padding.

namespace muster::store {

namespace {

constexpr char kVersion = 1;
constexpr size_t kHeaderBytes = 17;
constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// FNV-1a. Tokens are checked against mistakes, not against forgery: a forged one shows nothing
// that the query itself does not.
class Checksum {
 public:
  void Add(std::string_view text) {
    for (const char c : text) AddByte(static_cast<unsigned char>(c));
    AddByte(0xff);  // in no UTF-8 text: keeps neighbours apart
  }
  uint64_t value() const { return value_; }

 private:
  void AddByte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3u; }
  uint64_t value_ = 0xcbf29ce484222325u;
};

std::string LittleEndian(uint64_t number) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

uint64_t FromLittleEndian(std::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < 8; ++i) {
    number |= uint64_t(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return number;
}

std::string ChecksumOf(const ListQuery& query, std::string_view position) {
  Checksum sum;
  for (const std::string_view part : {std::string_view(query.kind), std::string_view(query.parent),
                                      std::string_view(query.filter), position}) {
    sum.Add(part);
  }
  return LittleEndian(sum.value());
}

std::string ToBase64(std::string_view bytes) {
  std::string text;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : bytes) {
    bits = (bits << 8) | static_cast<unsigned char>(c);
    for (count += 8; count >= 6; count -= 6) text += kAlphabet[(bits >> (count - 6)) & 63];
  }
  if (count > 0) text += kAlphabet[(bits << (6 - count)) & 63];
  return text;
}

std::optional<std::string> FromBase64(std::string_view text) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t digit = kAlphabet.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = (bits << 6) | uint32_t(digit);
    count += 6;
    if (count >= 8) bytes += static_cast<char>(bits >> (count -= 8));
  }
  return bytes;
}

}  // namespace

std::string MakePageToken(const ListQuery& query, const ListPosition& position) {
  const std::string where = LittleEndian(uint64_t(position.create_time_micros)) + position.name;
  return ToBase64(kVersion + ChecksumOf(query, where) + where);
}

Result<ListPosition> ReadPageToken(const ListQuery& query) {
  const std::optional<std::string> bytes = FromBase64(query.page_token);
  const bool readable = bytes && bytes->size() > kHeaderBytes && bytes->front() == kVersion;
  if (!readable || std::string_view(*bytes).substr(1, 8) !=
                       ChecksumOf(query, std::string_view(*bytes).substr(9))) {
    return Fail(Code::kInvalidArgument,
                "page_token: it does not belong to this list; pass the next_page_token of the same "
                "parent and filter, or none to begin again");
  }
  const std::string_view where = std::string_view(*bytes).substr(9);
  return ListPosition{.create_time_micros = int64_t(FromLittleEndian(where)),
                      .name = std::string(where.substr(8))};
}

}  // namespace muster::store
