// Little-endian numbers and short texts in control messages.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace muster::collective {

inline constexpr size_t kTextBytesMax = 1024;

template <std::unsigned_integral T>
void PutLittle(T value, std::byte* to) {
  for (size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
}

template <std::unsigned_integral T>
T GetLittle(const std::byte* from) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(std::to_integer<T>(from[i]) << (8 * i)));
  }
  return value;
}

class ByteWriter {
 public:
  template <std::unsigned_integral T>
  void Put(T value) {
    std::byte bytes[sizeof(T)];
    PutLittle(value, bytes);
    PutBytes(bytes);
  }
  void PutBytes(std::span<const std::byte> bytes) {
    out_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  // Cut off at kTextBytesMax.
  void PutText(std::string_view text) {
    text = text.substr(0, kTextBytesMax);
    Put(static_cast<uint16_t>(text.size()));
    out_.append(text);
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

// After a read past the end everything reads as zero and Finish() fails: callers check once.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <std::unsigned_integral T>
  T Get() {
    const auto bytes = GetBytes(sizeof(T));
    return bytes.empty() ? T{0} : GetLittle<T>(bytes.data());
  }
  // Empty if there are fewer.
  std::span<const std::byte> GetBytes(size_t count) {
    if (left_.size() < count) {
      short_ = true;
      left_ = {};
      return {};
    }
    const auto bytes = left_.first(count);
    left_ = left_.subspan(count);
    return bytes;
  }
  std::string GetText() {
    const size_t size = Get<uint16_t>();
    if (size > kTextBytesMax) short_ = true;
    const auto bytes = GetBytes(std::min(size, kTextBytesMax));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  size_t left() const { return left_.size(); }
  // Everything was there, and nothing is left over.
  Status Finish(std::string_view what) const {
    if (short_) return Fail(Code::kInvalidArgument, "{} is cut off", what);
    if (!left_.empty()) {
      return Fail(Code::kInvalidArgument, "{} has {} bytes too many", what, left_.size());
    }
    return {};
  }

 private:
  std::span<const std::byte> left_;
  bool short_ = false;
};

}  // namespace muster::collective
