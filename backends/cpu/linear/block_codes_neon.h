// The weight formats of the ARM kernels. Of each: kUnit values in kBytes bytes, the halves d at kScaleAt and, with
// mins, m or dmin behind it; part<p>(block, codes): codes 32 p .. 32 p + 31 less the format's zero, in order, as signed
// bytes, 2^kFraction times as large. Super-blocks: factors(block, to), the integer scales of kFactors sub-blocks, and
// mins(block). Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/neon.h"
#include "core/format/format.h"

namespace mote {
namespace {

template <Format format>
struct Codes;

template <uint32_t unit, uint32_t bytes, bool mins_too>
struct BlockCodes {
  static constexpr uint32_t kUnit = unit, kBytes = bytes, kScaleAt = 0, kFactors = 1;
  static constexpr bool kMins = mins_too;
  static constexpr int kFraction = 0;
};

// ------------------------------------------------------------------------------------------ blocks of 32

// The low nibbles of 16 bytes are codes 0 .. 15, the high ones codes 16 .. 31.
MOTE_INLINE void load_nibbles(const uint8_t* at, uint8x16_t nibbles[2]) {
  const uint8x16_t both = vld1q_u8(at);
  nibbles[0] = vandq_u8(both, vdupq_n_u8(15));
  nibbles[1] = vshrq_n_u8(both, 4);
}

// Bytes of all ones where bit i of the 32 bits at `at` is set, for code i.
MOTE_INLINE void load_bits(const uint8_t* at, uint8x16_t masks[2]) {
  const uint8x16_t bits = vreinterpretq_u8_u32(vdupq_n_u32(load_at<uint32_t>(at)));
  const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
  const uint8x16_t eights = vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(0), vcreate_u64(0x0101010101010101u)));
  masks[0] = vtstq_u8(vqtbl1q_u8(bits, eights), bit);
  masks[1] = vtstq_u8(vqtbl1q_u8(bits, vaddq_u8(eights, vdupq_n_u8(2))), bit);
}

template <>
struct Codes<Format::q4_0> : BlockCodes<32, 18, false> {
  static constexpr int kFraction = 4;   // 16 (code - 8): the code's bits on top, the first one flipped
  template <int>
  MOTE_INLINE static void part(const uint8_t* b, int8x16_t codes[2]) {
    const uint8x16_t flipped = veorq_u8(vld1q_u8(b + 2), vdupq_n_u8(0x88));
    codes[0] = vreinterpretq_s8_u8(vshlq_n_u8(flipped, 4));
    codes[1] = vreinterpretq_s8_u8(vandq_u8(flipped, vdupq_n_u8(0xf0)));
  }
};

template <>
struct Codes<Format::q4_1> : BlockCodes<32, 20, true> {
  template <int>
  MOTE_INLINE static void part(const uint8_t* b, int8x16_t codes[2]) {
    uint8x16_t nibbles[2];
    load_nibbles(b + 4, nibbles);
    for (int i = 0; i < 2; ++i) codes[i] = vreinterpretq_s8_u8(nibbles[i]);
  }
};

template <>
struct Codes<Format::q5_0> : BlockCodes<32, 22, false> {
  template <int>
  MOTE_INLINE static void part(const uint8_t* b, int8x16_t codes[2]) {
    uint8x16_t nibbles[2], fifth[2];
    load_nibbles(b + 6, nibbles);
    load_bits(b + 2, fifth);
    for (int i = 0; i < 2; ++i)   // -16 where the bit is clear
      codes[i] = vreinterpretq_s8_u8(vorrq_u8(nibbles[i], vbicq_u8(vdupq_n_u8(0xf0), fifth[i])));
  }
};

template <>
struct Codes<Format::q5_1> : BlockCodes<32, 24, true> {
  template <int>
  MOTE_INLINE static void part(const uint8_t* b, int8x16_t codes[2]) {
    uint8x16_t nibbles[2], fifth[2];
    load_nibbles(b + 8, nibbles);
    load_bits(b + 4, fifth);
    for (int i = 0; i < 2; ++i)
      codes[i] = vreinterpretq_s8_u8(vorrq_u8(nibbles[i], vandq_u8(vdupq_n_u8(16), fifth[i])));
  }
};

template <>
struct Codes<Format::q8_0> : BlockCodes<32, 34, false> {
  template <int>
  MOTE_INLINE static void part(const uint8_t* b, int8x16_t codes[2]) {
    codes[0] = load_codes(b + 2);
    codes[1] = load_codes(b + 18);
  }
};

template <>
struct Codes<Format::iq4_nl> : BlockCodes<32, 18, false> {
  template <int>
  MOTE_INLINE static void part(const uint8_t* b, int8x16_t codes[2]) {
    const int8x16_t table = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    uint8x16_t nibbles[2];
    load_nibbles(b + 2, nibbles);
    for (int i = 0; i < 2; ++i) codes[i] = vqtbl1q_s8(table, nibbles[i]);
  }
};

// ------------------------------------------------------------------------------------------ super-blocks of 256

// Eight bytes to integers.
MOTE_INLINE void widen_bytes(int8x8_t bytes, int32x4_t to[2]) {
  const int16x8_t words = vmovl_s8(bytes);
  to[0] = vmovl_s16(vget_low_s16(words));
  to[1] = vmovl_high_s16(words);
}

// Q4_K and Q5_K: eight 6-bit scales and mins in 12 bytes behind the halves; those of the upper four are put together
// from four bits in the last word and two on top of the bytes of the first (scales) or second (mins).
template <uint32_t bytes>
struct SixBitScales : BlockCodes<256, bytes, true> {
  static constexpr uint32_t kFactors = 8;
  MOTE_INLINE static int8x8_t join(uint32_t six, uint32_t four) {
    const uint32_t low = six & 0x3f3f3f3fu, high = (four & 0x0f0f0f0fu) | (six >> 2 & 0x30303030u);
    return vcreate_s8(uint64_t{high} << 32 | low);
  }
  MOTE_INLINE static void factors(const uint8_t* b, int32x4_t to[2]) {
    widen_bytes(join(load_at<uint32_t>(b + 4), load_at<uint32_t>(b + 12)), to);
  }
  MOTE_INLINE static int16x8_t mins(const uint8_t* b) {
    return vmovl_s8(join(load_at<uint32_t>(b + 8), load_at<uint32_t>(b + 12) >> 4));
  }
};

// Part p: the low or high nibbles of 32 bytes.
template <int p>
MOTE_INLINE void load_k_nibbles(const uint8_t* at, uint8x16_t nibbles[2]) {
  for (int i = 0; i < 2; ++i) {
    const uint8x16_t both = vld1q_u8(at + p / 2 * 32 + i * 16);
    nibbles[i] = p % 2 == 0 ? vandq_u8(both, vdupq_n_u8(15)) : vshrq_n_u8(both, 4);
  }
}

template <>
struct Codes<Format::q4_k> : SixBitScales<144> {
  template <int p>
  MOTE_INLINE static void part(const uint8_t* b, int8x16_t codes[2]) {
    uint8x16_t nibbles[2];
    load_k_nibbles<p>(b + 16, nibbles);
    for (int i = 0; i < 2; ++i) codes[i] = vreinterpretq_s8_u8(nibbles[i]);
  }
};

template <>
struct Codes<Format::q5_k> : SixBitScales<176> {
  template <int p>
  MOTE_INLINE static void part(const uint8_t* b, int8x16_t codes[2]) {
    uint8x16_t nibbles[2];
    load_k_nibbles<p>(b + 48, nibbles);
    for (int i = 0; i < 2; ++i) {
      const uint8x16_t fifth = vtstq_u8(vld1q_u8(b + 16 + i * 16), vdupq_n_u8(1 << p));
      codes[i] = vreinterpretq_s8_u8(vorrq_u8(nibbles[i], vandq_u8(fifth, vdupq_n_u8(16))));
    }
  }
};

template <>
struct Codes<Format::q6_k> : BlockCodes<256, 210, false> {
  static constexpr uint32_t kScaleAt = 208, kFactors = 16;
  // Part 4 n + q: low bits in bytes 64 n + 32 (q % 2) .., nibble q / 2; high bits in bytes 128 + 32 n .., bit pair q.
  template <int p>
  MOTE_INLINE static void part(const uint8_t* b, int8x16_t codes[2]) {
    constexpr int n = p / 4, q = p % 4;
    for (int i = 0; i < 2; ++i) {
      const uint8x16_t low = vld1q_u8(b + 64 * n + 32 * (q % 2) + 16 * i), high = vld1q_u8(b + 128 + 32 * n + 16 * i);
      const uint8x16_t low4 = q < 2 ? vandq_u8(low, vdupq_n_u8(15)) : vshrq_n_u8(low, 4);
      const uint8x16_t moved = q == 0   ? vshlq_n_u8(high, 4)
                               : q == 1 ? vshlq_n_u8(high, 2)
                               : q == 2 ? high
                                        : vshrq_n_u8(high, 2);
      const uint8x16_t six = vorrq_u8(low4, vandq_u8(moved, vdupq_n_u8(0x30)));
      codes[i] = vsubq_s8(vreinterpretq_s8_u8(six), vdupq_n_s8(32));
    }
  }
  MOTE_INLINE static void factors(const uint8_t* b, int32x4_t to[4]) {
    const int8x16_t bytes = load_codes(b + 192);
    widen_bytes(vget_low_s8(bytes), to);
    widen_bytes(vget_high_s8(bytes), to + 2);
  }
};

}   // namespace
}   // namespace mote
