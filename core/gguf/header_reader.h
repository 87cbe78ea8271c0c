// A cursor over the header's bytes that never goes past their end. Used by the walk in file.cpp alone; what has been
// walked once is read again without checks.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/bytes.h"
#include "core/gguf/file.h"

namespace mote::gguf {

// Bytes of one value of a fixed-size type; 0 for strings, arrays and numbers that are no type.
constexpr uint32_t fixed_bytes(Type type) {
  switch (type) {
    case Type::uint8:
    case Type::int8:
    case Type::boolean:
      return 1;
    case Type::uint16:
    case Type::int16:
      return 2;
    case Type::uint32:
    case Type::int32:
    case Type::float32:
      return 4;
    case Type::uint64:
    case Type::int64:
    case Type::float64:
      return 8;
    case Type::string:
    case Type::array:
      return 0;
  }
  return 0;
}

class HeaderReader {
 public:
  explicit HeaderReader(std::span<const uint8_t> bytes)
      : begin_(bytes.data()), at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  uint64_t offset() const { return static_cast<uint64_t>(at_ - begin_); }
  uint64_t left_bytes() const { return static_cast<uint64_t>(end_ - at_); }
  const uint8_t* at() const { return at_; }

  bool skip(uint64_t bytes) {
    if (bytes > left_bytes()) return false;
    at_ += static_cast<size_t>(bytes);
    return true;
  }
  template <class T>
  bool take(T* value) {
    if (left_bytes() < sizeof(T)) return false;
    *value = load_le<T>(at_);
    at_ += sizeof(T);
    return true;
  }
  // A length and as many bytes. On failure *length_bytes tells a cut length field (0) from a length beyond the end.
  bool take_text(std::string_view* text, uint64_t* length_bytes) {
    *length_bytes = 0;
    if (!take(length_bytes) || *length_bytes > left_bytes()) return false;
    *text = {reinterpret_cast<const char*>(at_), static_cast<size_t>(*length_bytes)};
    at_ += static_cast<size_t>(*length_bytes);
    return true;
  }

 private:
  const uint8_t* begin_;
  const uint8_t* at_;
  const uint8_t* end_;
};

// A text at a place that was walked before: moves *at behind it.
inline std::string_view text_at(const uint8_t** at) {
  const auto length = static_cast<size_t>(load_le<uint64_t>(*at));
  const std::string_view text(reinterpret_cast<const char*>(*at + 8), length);
  *at += 8 + length;
  return text;
}

// What the bytes are that do not begin with GGUF's magic: a web page, a git-LFS pointer, another container.
Status not_gguf(std::span<const uint8_t> bytes);

}   // namespace mote::gguf
