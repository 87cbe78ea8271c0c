// 16 blocks of 32 codes, wherever they lie, as lanes: one `Lanes` per format. Codes come out unsigned, code + kZero, as
// the 8-bit dot product wants its first operand. Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/avx512.h"
#include "core/format/format.h"

namespace mote {
namespace {

// A format: kBytes of a block, kZero, kMins; its scale is the half at byte 0, its min that at byte 2. unpack(at,
// codes): the blocks at at(0) .. at(15) to codes[j] = codes 4 j .. 4 j + 3 of every lane, unsigned, the second half of
// them shifted to the left by kHighShift bits.
template <Format format>
struct Lanes;

// The low nibbles of 16 bytes are codes 0 .. 15, the high ones codes 16 .. 31, which come out where they are in a byte.
template <class At>
MOTE_INLINE void load_nibbles(At at, size_t offset, __m512i codes[8]) {
  __m512i raw[4];
  load_words(at, offset, raw);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    codes[j] = _mm512_and_si512(raw[j], _mm512_set1_epi8(15));
    codes[4 + j] = _mm512_andnot_si512(_mm512_set1_epi8(15), raw[j]);
  }
}
// The second half of the codes, `bits` to the right.
template <int bits>
MOTE_INLINE void shift_high([[maybe_unused]] __m512i codes[8]) {
  if constexpr (bits != 0)
#pragma GCC unroll 4
    for (int j = 4; j < 8; ++j) codes[j] = _mm512_srli_epi16(codes[j], bits);
}

// Sets bit 4 of codes by the 32 bits at `offset`, bit i for code i.
template <class At>
MOTE_INLINE void add_fifth_bits(At at, size_t offset, __m512i codes[8]) {
  const auto two = [&](int i) {
    const uint64_t low = load_at<uint32_t>(at(i) + offset), high = load_at<uint32_t>(at(i + 1) + offset);
    return static_cast<long long>(low | high << 32);
  };
  const __m512i bits = _mm512_setr_epi64(two(0), two(2), two(4), two(6), two(8), two(10), two(12), two(14));
  const __m512i own_byte = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));
  const __m512i low_bits = _mm512_set1_epi32(0x08040201), high_bits = _mm512_slli_epi32(low_bits, 4);
  const __m512i fifth = _mm512_set1_epi8(16);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i byte = _mm512_shuffle_epi8(bits, _mm512_add_epi8(own_byte, _mm512_set1_epi8(static_cast<char>(j))));
    codes[2 * j] = _mm512_mask_add_epi8(codes[2 * j], _mm512_test_epi8_mask(byte, low_bits), codes[2 * j], fifth);
    codes[2 * j + 1] =
        _mm512_mask_add_epi8(codes[2 * j + 1], _mm512_test_epi8_mask(byte, high_bits), codes[2 * j + 1], fifth);
  }
}

template <>
struct Lanes<Format::q4_0> {
  static constexpr uint32_t kBytes = 18, kZero = 8;
  static constexpr bool kMins = false;
  static constexpr int kHighShift = 4;
  template <class At>
  MOTE_INLINE static void unpack(At at, __m512i codes[8]) {
    load_nibbles(at, 2, codes);
  }
};

template <>
struct Lanes<Format::q4_1> {
  static constexpr uint32_t kBytes = 20, kZero = 0;
  static constexpr bool kMins = true;
  static constexpr int kHighShift = 4;
  template <class At>
  MOTE_INLINE static void unpack(At at, __m512i codes[8]) {
    load_nibbles(at, 4, codes);
  }
};

template <>
struct Lanes<Format::q5_0> {
  static constexpr uint32_t kBytes = 22, kZero = 16;
  static constexpr bool kMins = false;
  static constexpr int kHighShift = 0;
  template <class At>
  MOTE_INLINE static void unpack(At at, __m512i codes[8]) {
    load_nibbles(at, 6, codes);
    shift_high<4>(codes);
    add_fifth_bits(at, 2, codes);
  }
};

template <>
struct Lanes<Format::q5_1> {
  static constexpr uint32_t kBytes = 24, kZero = 0;
  static constexpr bool kMins = true;
  static constexpr int kHighShift = 0;
  template <class At>
  MOTE_INLINE static void unpack(At at, __m512i codes[8]) {
    load_nibbles(at, 8, codes);
    shift_high<4>(codes);
    add_fifth_bits(at, 4, codes);
  }
};

template <>
struct Lanes<Format::q8_0> {
  static constexpr uint32_t kBytes = 34, kZero = 128;
  static constexpr bool kMins = false;
  static constexpr int kHighShift = 0;
  template <class At>
  MOTE_INLINE static void unpack(At at, __m512i codes[8]) {
    load_words(at, 2, codes);
    load_words(at, 18, codes + 4);
    const __m512i flip = _mm512_set1_epi8(-128);   // a signed byte to itself + 128
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) codes[j] = _mm512_xor_si512(codes[j], flip);
  }
};

template <>
struct Lanes<Format::iq4_nl> {
  static constexpr uint32_t kBytes = 18, kZero = 128;
  static constexpr bool kMins = false;
  static constexpr int kHighShift = 0;
  template <class At>
  MOTE_INLINE static void unpack(At at, __m512i codes[8]) {
    // The format's table, 128 added.
    const __m512i table = _mm512_broadcast_i32x4(
        _mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, -127, -115, -103, -90, -75, -59, -39, -15));
    load_nibbles(at, 2, codes);
    shift_high<4>(codes);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) codes[j] = _mm512_shuffle_epi8(table, codes[j]);
  }
};

}   // namespace
}   // namespace mote
