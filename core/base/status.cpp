#include "core/base/status.h"

#include <bit>

namespace mote {

class SentenceWriter {
 public:
  SentenceWriter(char* to, uint32_t capacity) : to_(to), room_(capacity - 1) {}

  void put(char c) {
    if (length_ < room_) to_[length_++] = c;
  }
  void put_all(std::string_view text) {
    for (const char c : text) put(c);
  }
  void put_escaped(std::string_view text) {
    constexpr uint32_t kLongest = 96;   // as shown: a hostile name must not push the rest of the sentence out
    constexpr char kHex[] = "0123456789abcdef";
    uint32_t shown = 0;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      const bool plain = byte >= 0x20 && byte < 0x7f;
      shown += plain ? 1 : 4;
      if (shown > kLongest) return put_all("...");
      if (plain) {
        put(c);
      } else {
        put('\\'), put('x'), put(kHex[byte >> 4]), put(kHex[byte & 15]);
      }
    }
  }
  void put_unsigned(uint64_t value) {
    char digits[20];
    int count = 0;
    do digits[count++] = static_cast<char>('0' + value % 10);
    while ((value /= 10) != 0);
    while (count > 0) put(digits[--count]);
  }
  void put_signed(int64_t value) {
    if (value < 0) put('-');
    put_unsigned(value < 0 ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value));
  }
  // Six significant digits: enough to recognise an option or an epsilon in a message.
  void put_real(double value) {
    const uint64_t bits = std::bit_cast<uint64_t>(value);
    if ((bits >> 52 & 0x7ff) == 0x7ff) {
      put_all((bits << 12) != 0 ? "nan" : (bits >> 63) != 0 ? "-inf" : "inf");
      return;
    }
    if ((bits >> 63) != 0) put('-');
    if (value < 0) value = -value;
    if (value == 0) return put('0');
    int exponent = 0;
    while (value >= 1e6) value /= 10, ++exponent;
    while (value < 1e5) value *= 10, --exponent;
    auto digits = static_cast<uint64_t>(value + 0.5);   // 100000 .. 1000000
    while (digits % 10 == 0) digits /= 10, ++exponent;
    if (exponent >= 0 && exponent <= 9) {
      for (; exponent > 0; --exponent) digits *= 10;
      return put_unsigned(digits);
    }
    if (exponent < 0 && exponent >= -9) return put_decimal(digits, -exponent);
    put_unsigned(digits), put('e'), put_signed(exponent);
  }
  void put_argument(const FormatArgument& argument) {
    switch (argument.kind_) {
      case FormatArgument::Kind::text:
        return put_escaped(argument.text_);
      case FormatArgument::Kind::sentence:
        return put_all(argument.text_);
      case FormatArgument::Kind::signed_:
        return put_signed(argument.signed_);
      case FormatArgument::Kind::unsigned_:
        return put_unsigned(argument.unsigned_);
      case FormatArgument::Kind::real:
        return put_real(argument.real_);
    }
  }
  uint32_t finish() {
    to_[length_] = 0;
    return length_;
  }

 private:
  // digits x 10^-places, for example 15 and 1: 1.5
  void put_decimal(uint64_t digits, int places) {
    uint64_t power = 1;
    for (int i = 0; i < places; ++i) power *= 10;
    put_unsigned(digits / power), put('.');
    for (uint64_t rest = digits % power; places > 0; --places) {
      power /= 10;
      put(static_cast<char>('0' + rest / power));
      rest %= power;
    }
  }

  char* to_;
  uint32_t room_, length_ = 0;
};

uint32_t format_sentence(char* to, uint32_t capacity, std::string_view pattern, const FormatArgument* arguments,
                         uint32_t count) {
  SentenceWriter writer(to, capacity);
  uint32_t next = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '{' && i + 1 < pattern.size() && pattern[i + 1] == '}') {
      if (next < count) writer.put_argument(arguments[next++]);
      ++i;
    } else {
      writer.put(pattern[i]);
    }
  }
  return writer.finish();
}

Status Status::make(Code code, std::string_view pattern, const FormatArgument* arguments, uint32_t count) {
  Status status;
  status.code_ = code;
  status.length_ = format_sentence(status.text_, kCapacity, pattern, arguments, count);
  return status;
}

}   // namespace mote
