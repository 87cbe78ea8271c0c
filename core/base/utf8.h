// UTF-8 as a reader of untrusted bytes needs it: every byte sequence yields characters, the bad ones U+FFFD, one for
// each maximal bad part (Unicode 15, section 3.9, "Substitution of Maximal Subparts").
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mote {

inline constexpr uint32_t kReplacementCharacter = 0xFFFD;
inline constexpr std::string_view kReplacementBytes = "\xEF\xBF\xBD";

struct Utf8Character {
  uint32_t code_point;   // kReplacementCharacter when not valid
  uint32_t bytes;        // length in the text, at least 1
  bool valid;
  bool unfinished;   // not valid, but the text ended inside of what could still become a character
};

// The character at `text`, of which `left` > 0 bytes are there.
inline Utf8Character decode_utf8(const char* text, size_t left) {
  const auto byte = [text](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const uint32_t first = byte(0);
  if (first < 0x80) return {first, 1, true, false};
  if (first < 0xC2 || first > 0xF4) return {kReplacementCharacter, 1, false, false};
  const uint32_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and what lies beyond U+10FFFF.
  uint32_t low = 0x80, high = 0xBF;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  uint32_t code_point = first & (0x7Fu >> length);
  for (uint32_t i = 1; i < length; ++i) {
    if (i == left) return {kReplacementCharacter, i, false, true};
    const uint32_t next = byte(i);
    if (next < low || next > high) return {kReplacementCharacter, i, false, false};
    low = 0x80, high = 0xBF;
    code_point = code_point << 6 | (next & 0x3F);
  }
  return {code_point, length, true, false};
}

// Writes a code point up to U+10FFFF, at most four bytes; returns how many.
inline uint32_t encode_utf8(uint32_t code_point, char* to) {
  const auto put = [to](uint32_t i, uint32_t byte) { to[i] = static_cast<char>(static_cast<unsigned char>(byte)); };
  if (code_point < 0x80) return put(0, code_point), 1;
  if (code_point < 0x800) return put(0, 0xC0 | code_point >> 6), put(1, 0x80 | (code_point & 0x3F)), 2;
  if (code_point < 0x10000) {
    put(0, 0xE0 | code_point >> 12), put(1, 0x80 | (code_point >> 6 & 0x3F)), put(2, 0x80 | (code_point & 0x3F));
    return 3;
  }
  put(0, 0xF0 | code_point >> 18), put(1, 0x80 | (code_point >> 12 & 0x3F));
  put(2, 0x80 | (code_point >> 6 & 0x3F)), put(3, 0x80 | (code_point & 0x3F));
  return 4;
}

}   // namespace mote
