// The alphabet of byte-level BPE: each byte has a printable character, so that pieces are text. Bytes that are
// printable in Latin-1 stand for themselves, the others for U+0100 and up, in order.
// Source: bytes_to_unicode in https://github.com/openai/gpt-2/blob/master/src/encoder.py
#pragma once
#include <array>
#include <cstdint>

namespace mote {

struct ByteLevelAlphabet {
  static constexpr uint32_t kEnd = 0x100 + 68;   // one past the last code point in use
  std::array<uint16_t, 256> code_point{};
  std::array<int16_t, kEnd> byte{};   // -1: not in the alphabet

  constexpr ByteLevelAlphabet() {
    byte.fill(-1);
    uint32_t beyond = 0x100;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      const uint32_t c = printable ? b : beyond++;
      code_point[b] = static_cast<uint16_t>(c);
      byte[c] = static_cast<int16_t>(b);
    }
  }
};

inline constexpr ByteLevelAlphabet kByteLevel;

}   // namespace mote
