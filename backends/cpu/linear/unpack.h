// Weight blocks into 16-bit integers: one `Unpack` per format, the same shape for all, so that one kernel serves every
// format. A super-block's sub-scales are multiplied into the integers: every product fits in 16 bits and the
// sum stays exact, which is why the order in linear.h does not care.
//
// Internal linkage throughout: see kernel_base.h.
#pragma once
#include "backends/cpu/kernel_base.h"
#include "core/format/format.h"

namespace mote {
namespace {

// The unpacking of a format: a specialisation for each row of formats.inc, or table.h does not compile.
template <Format format>
struct Unpack;

enum class Mins : uint8_t { none, added, subtracted };

// Every format: kUnit values in kBytes bytes; kMins; unpack(block, codes[kUnit], mins): `mins` [16], one for each 16
// codes, is written only by super-blocks with mins; scale16 and min16 are the f16 bits of d and of m or dmin.
template <uint32_t unit, uint32_t bytes, Mins mins_kind>
struct BlockFormat {
  static constexpr uint32_t kUnit = unit, kBytes = bytes;
  static constexpr Mins kMins = mins_kind;
  static constexpr bool kHalfScale = true;
  static uint16_t scale16(const uint8_t* b) { return load_at<uint16_t>(b); }
  static uint16_t min16(const uint8_t* b) { return load_at<uint16_t>(b + 2); }
};

// Makes the compiler write these bytes out and read them again as a whole. Without it gcc 12 takes the words apart and
// puts vectors together from pieces of them, five times slower than the loop that is written.
template <class T, size_t count>
inline void keep_in_memory(T (&bytes)[count]) {
  __asm__("" : "+m"(bytes));
}

inline int16_t low4(uint8_t byte) { return static_cast<int16_t>(byte & 15); }
inline int16_t high4(uint8_t byte) { return static_cast<int16_t>(byte >> 4); }

// ------------------------------------------------------------------------------------------ blocks of 32

template <>
struct Unpack<Format::q4_0> : BlockFormat<32, 18, Mins::none> {
  static void unpack(const uint8_t* __restrict b, int16_t* __restrict codes, int16_t*) {
    for (int i = 0; i < 16; ++i) codes[i] = static_cast<int16_t>(low4(b[2 + i]) - 8);
    for (int i = 0; i < 16; ++i) codes[16 + i] = static_cast<int16_t>(high4(b[2 + i]) - 8);
  }
};

template <>
struct Unpack<Format::q4_1> : BlockFormat<32, 20, Mins::added> {
  static void unpack(const uint8_t* __restrict b, int16_t* __restrict codes, int16_t*) {
    for (int i = 0; i < 16; ++i) codes[i] = low4(b[4 + i]);
    for (int i = 0; i < 16; ++i) codes[16 + i] = high4(b[4 + i]);
  }
};

// Bit i of the 32 bits at `fifth` is the fifth bit of code i.
inline void unpack_5_bits(const uint8_t* __restrict nibbles, const uint8_t* __restrict fifth, int zero,
                          int16_t* __restrict codes) {
  uint8_t high[32];
  for (int j = 0; j < 4;
       ++j) {   // eight bits to eight bytes of 0 or 16: each bit alone in a byte, then moved to its top
    const uint64_t alone = (fifth[j] * 0x0101010101010101u) & 0x8040201008040201u;
    const uint64_t bytes = ((alone + 0x7f7f7f7f7f7f7f7fu) >> 3) & 0x1010101010101010u;
    __builtin_memcpy(high + 8 * j, &bytes, 8);
  }
  keep_in_memory(high);
  for (int i = 0; i < 16; ++i) codes[i] = static_cast<int16_t>((low4(nibbles[i]) | high[i]) - zero);
  for (int i = 0; i < 16; ++i) codes[16 + i] = static_cast<int16_t>((high4(nibbles[i]) | high[16 + i]) - zero);
}

template <>
struct Unpack<Format::q5_0> : BlockFormat<32, 22, Mins::none> {
  static void unpack(const uint8_t* __restrict b, int16_t* __restrict codes, int16_t*) {
    unpack_5_bits(b + 6, b + 2, 16, codes);
  }
};

template <>
struct Unpack<Format::q5_1> : BlockFormat<32, 24, Mins::added> {
  static void unpack(const uint8_t* __restrict b, int16_t* __restrict codes, int16_t*) {
    unpack_5_bits(b + 8, b + 4, 0, codes);
  }
};

template <>
struct Unpack<Format::q8_0> : BlockFormat<32, 34, Mins::none> {
  static void unpack(const uint8_t* __restrict b, int16_t* __restrict codes, int16_t*) {
    for (int i = 0; i < 32; ++i) codes[i] = static_cast<int8_t>(b[2 + i]);
  }
};

constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int8_t kMxfp4Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// codes[i] and codes[16 + i] = what the two nibbles of byte i stand for, times scale.
inline void look_up_nibbles(const uint8_t* __restrict nibbles, const int8_t* __restrict table, int16_t scale,
                            int16_t* __restrict codes) {
  int8_t values[32];
  for (int i = 0; i < 16; ++i) {
    values[i] = table[nibbles[i] & 15];
    values[16 + i] = table[nibbles[i] >> 4];
  }
  keep_in_memory(values);
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<int16_t>(scale * static_cast<int16_t>(values[i]));
}

template <>
struct Unpack<Format::iq4_nl> : BlockFormat<32, 18, Mins::none> {
  static void unpack(const uint8_t* __restrict b, int16_t* __restrict codes, int16_t*) {
    look_up_nibbles(b + 2, kIq4Values, 1, codes);
  }
};

template <>
struct Unpack<Format::mxfp4> : BlockFormat<32, 17, Mins::none> {
  static constexpr bool kHalfScale = false;
  // 2^(e - 128); e = 0 and 1 are subnormal in f32. Infinite if a value of the block is too large for an f32.
  static float scale(const uint8_t* b) {
    if (b[0] >= 253) {
      for (int i = 0; i < 32; ++i) {
        const int code = kMxfp4Doubled[b[1 + i / 2] >> (i % 2 * 4) & 7];
        if (code >= 1 << (256 - b[0])) return __builtin_inff();
      }
    }
    return bits_as<float>(b[0] < 2 ? 0x00200000u << b[0] : static_cast<uint32_t>(b[0] - 1) << 23);
  }
  static void unpack(const uint8_t* __restrict b, int16_t* __restrict codes, int16_t*) {
    look_up_nibbles(b + 1, kMxfp4Doubled, 1, codes);
  }
};

// ------------------------------------------------------------------------------------------ super-blocks of 256

// 16 sub-blocks of 16: byte j holds scale (low nibble) and min. Sub-block 8 n + 2 j + h: bits 2 j of bytes 32 n + 16 h
// ..
template <>
struct Unpack<Format::q2_k> : BlockFormat<256, 84, Mins::subtracted> {
  static uint16_t scale16(const uint8_t* b) { return load_at<uint16_t>(b + 80); }
  static uint16_t min16(const uint8_t* b) { return load_at<uint16_t>(b + 82); }
  static void unpack(const uint8_t* __restrict b, int16_t* __restrict codes, int16_t* __restrict mins) {
    for (uint32_t s = 0; s < 16; ++s) {
      const int16_t scale = low4(b[s]);
      const uint8_t* from = b + 16 + s / 8 * 32 + s % 2 * 16;
      const uint32_t shift = s % 8 / 2 * 2;
      for (uint32_t i = 0; i < 16; ++i)
        codes[s * 16 + i] = static_cast<int16_t>(scale * static_cast<int16_t>(from[i] >> shift & 3));
      mins[s] = high4(b[s]);
    }
  }
};

// 16 sub-blocks of 16, placed as in Q2_K; the third bit of each code in a mask of 32 bytes, bit 4 n + j.
template <>
struct Unpack<Format::q3_k> : BlockFormat<256, 110, Mins::none> {
  static uint16_t scale16(const uint8_t* b) { return load_at<uint16_t>(b + 108); }
  static int16_t sub_scale(const uint8_t* scales, uint32_t s) {
    const int low = s < 8 ? scales[s] & 15 : scales[s - 8] >> 4;
    const int high = scales[8 + s % 4] >> (s / 4 * 2) & 3;
    return static_cast<int16_t>((low | high << 4) - 32);
  }
  static void unpack(const uint8_t* __restrict b, int16_t* __restrict codes, int16_t*) {
    for (uint32_t s = 0; s < 16; ++s) {
      const int16_t scale = sub_scale(b + 96, s);
      const uint8_t *from = b + 32 + s / 8 * 32 + s % 2 * 16, *mask = b + s % 2 * 16;
      const uint32_t shift = s % 8 / 2 * 2, bit = s / 2;
      for (uint32_t i = 0; i < 16; ++i) {
        const int code = (from[i] >> shift & 3) + (mask[i] >> bit & 1) * 4 - 4;
        codes[s * 16 + i] = static_cast<int16_t>(scale * static_cast<int16_t>(code));
      }
    }
  }
};

// Eight 6-bit scales and mins in 12 bytes, shared by Q4_K and Q5_K.
inline int16_t sub_scale_6(const uint8_t* s, uint32_t j) {
  return static_cast<int16_t>(j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4);
}
inline int16_t sub_min_6(const uint8_t* s, uint32_t j) {
  return static_cast<int16_t>(j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4);
}

template <>
struct Unpack<Format::q4_k> : BlockFormat<256, 144, Mins::subtracted> {
  static void unpack(const uint8_t* __restrict b, int16_t* __restrict codes, int16_t* __restrict mins) {
    for (uint32_t j = 0; j < 8; ++j) {
      const int16_t scale = sub_scale_6(b + 4, j);
      const uint8_t* from = b + 16 + j / 2 * 32;
      const uint32_t shift = j % 2 * 4;
      for (uint32_t i = 0; i < 32; ++i)
        codes[j * 32 + i] = static_cast<int16_t>(scale * static_cast<int16_t>(from[i] >> shift & 15));
      mins[2 * j] = mins[2 * j + 1] = sub_min_6(b + 4, j);
    }
  }
};

template <>
struct Unpack<Format::q5_k> : BlockFormat<256, 176, Mins::subtracted> {
  static void unpack(const uint8_t* __restrict b, int16_t* __restrict codes, int16_t* __restrict mins) {
    for (uint32_t j = 0; j < 8; ++j) {
      const int16_t scale = sub_scale_6(b + 4, j);
      const uint8_t *from = b + 48 + j / 2 * 32, *fifth = b + 16;
      const uint32_t shift = j % 2 * 4;
      for (uint32_t i = 0; i < 32; ++i) {
        const int code = (from[i] >> shift & 15) | (fifth[i] >> j & 1) << 4;
        codes[j * 32 + i] = static_cast<int16_t>(scale * static_cast<int16_t>(code));
      }
      mins[2 * j] = mins[2 * j + 1] = sub_min_6(b + 4, j);
    }
  }
};

// 16 sub-blocks of 16: sub-block 8 n + s: low bits in bytes 64 n + 16 (s % 4), nibble s / 4; high bits in bytes
// 128 + 32 n + 16 (s % 2), bit pair s / 2.
template <>
struct Unpack<Format::q6_k> : BlockFormat<256, 210, Mins::none> {
  static uint16_t scale16(const uint8_t* b) { return load_at<uint16_t>(b + 208); }
  static void unpack(const uint8_t* __restrict b, int16_t* __restrict codes, int16_t*) {
    for (uint32_t t = 0; t < 16; ++t) {
      const uint32_t n = t / 8, s = t % 8;
      const int16_t scale = static_cast<int8_t>(b[192 + t]);
      const uint8_t *low = b + 64 * n + 16 * (s % 4), *high = b + 128 + 32 * n + 16 * (s % 2);
      const uint32_t low_shift = s / 4 * 4, high_shift = s / 2 * 2;
      for (uint32_t i = 0; i < 16; ++i) {
        const int code = ((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4) - 32;
        codes[t * 16 + i] = static_cast<int16_t>(scale * static_cast<int16_t>(code));
      }
    }
  }
};

template <>
struct Unpack<Format::iq4_xs> : BlockFormat<256, 136, Mins::none> {
  static void unpack(const uint8_t* __restrict b, int16_t* __restrict codes, int16_t*) {
    const uint32_t high = load_at<uint16_t>(b + 2);
    for (uint32_t j = 0; j < 8; ++j) {
      const uint32_t low = b[4 + j / 2] >> (j % 2 * 4) & 15u;
      const int scale = static_cast<int>(low | (high >> (2 * j) & 3) << 4) - 32;
      look_up_nibbles(b + 8 + j * 16, kIq4Values, static_cast<int16_t>(scale), codes + j * 32);
    }
  }
};

// ------------------------------------------------------------------------------------------ single elements

template <>
struct Unpack<Format::f32> {
  static constexpr uint32_t kUnit = 1, kBytes = 4;
  static void unpack(const uint8_t* from, uint32_t count, float* to) { __builtin_memcpy(to, from, size_t{count} * 4); }
};

template <>
struct Unpack<Format::f16> {
  static constexpr uint32_t kUnit = 1, kBytes = 2;
  static void unpack(const uint8_t* from, uint32_t count, float* to) {
    uint16_t halves[kLanes];
    uint32_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      __builtin_memcpy(halves, from + size_t{i} * 2, sizeof halves);
      halves_to_floats(halves, kLanes, to + i);
    }
    for (; i < count; ++i) to[i] = half_to_float(load_at<uint16_t>(from + size_t{i} * 2));
  }
};

template <>
struct Unpack<Format::bf16> {
  static constexpr uint32_t kUnit = 1, kBytes = 2;
  static void unpack(const uint8_t* from, uint32_t count, float* to) {
    for (uint32_t i = 0; i < count; ++i)
      to[i] = bits_as<float>(static_cast<uint32_t>(load_at<uint16_t>(from + size_t{i} * 2)) << 16);
  }
};

}   // namespace
}   // namespace mote
