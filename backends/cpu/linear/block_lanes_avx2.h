// 8 blocks of 32 codes, wherever they lie, as lanes: one `Lanes` per format, as block_lanes_avx512.h has 16. Internal
// linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/avx2.h"
#include "core/format/format.h"

namespace mote {
namespace {

// A format: kBytes of a block, kZero, kLargest of the codes (see `Products`), kMins; its scale is the half at byte 0,
// its min that at byte 2. unpack(at, codes): the blocks at at(0) .. at(7) to codes[j] = codes 4 j .. 4 j + 3 of every
// lane, plus kZero.
template <Format format>
struct Lanes;

template <uint32_t bytes, uint32_t zero, uint32_t largest, bool mins>
struct LanesBase {
  static constexpr uint32_t kBytes = bytes, kZero = zero, kLargest = largest;
  static constexpr bool kMins = mins;
};

// The low nibbles of 16 bytes are codes 0 .. 15, the high ones codes 16 .. 31.
template <class At>
MOTE_INLINE void load_nibbles(At at, size_t offset, __m256i codes[8]) {
  const __m256i low4 = _mm256_set1_epi8(15);
  __m256i raw[4];
  load_words(at, offset, raw);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    codes[j] = _mm256_and_si256(raw[j], low4);
    codes[4 + j] = _mm256_and_si256(_mm256_srli_epi16(raw[j], 4), low4);
  }
}

// Sets bit 4 of codes by the 32 bits at `offset`, bit i for code i.
template <class At>
MOTE_INLINE void add_fifth_bits(At at, size_t offset, __m256i codes[8]) {
  const auto bits = [&](int i) { return load_at<int32_t>(at(i) + offset); };
  const __m256i all = _mm256_setr_epi32(bits(0), bits(1), bits(2), bits(3), bits(4), bits(5), bits(6), bits(7));
  const __m256i fifth = _mm256_set1_epi8(16),
                first = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808, 0x0c0c0c0c);
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) {   // the byte with their bits in all four, then a bit of each
    const __m256i byte = _mm256_shuffle_epi8(all, _mm256_add_epi8(first, _mm256_set1_epi8(static_cast<char>(j / 2))));
    const __m256i bit = _mm256_set1_epi32(j % 2 == 0 ? 0x08040201 : static_cast<int32_t>(0x80402010));
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(byte, bit), bit);
    codes[j] = _mm256_or_si256(codes[j], _mm256_and_si256(set, fifth));
  }
}

template <>
struct Lanes<Format::q4_0> : LanesBase<18, 8, 15, false> {
  template <class At>
  MOTE_INLINE static void unpack(At at, __m256i codes[8]) {
    load_nibbles(at, 2, codes);
  }
};

template <>
struct Lanes<Format::q4_1> : LanesBase<20, 0, 15, true> {
  template <class At>
  MOTE_INLINE static void unpack(At at, __m256i codes[8]) {
    load_nibbles(at, 4, codes);
  }
};

template <>
struct Lanes<Format::q5_0> : LanesBase<22, 16, 31, false> {
  template <class At>
  MOTE_INLINE static void unpack(At at, __m256i codes[8]) {
    load_nibbles(at, 6, codes);
    add_fifth_bits(at, 2, codes);
  }
};

template <>
struct Lanes<Format::q5_1> : LanesBase<24, 0, 31, true> {
  template <class At>
  MOTE_INLINE static void unpack(At at, __m256i codes[8]) {
    load_nibbles(at, 8, codes);
    add_fifth_bits(at, 4, codes);
  }
};

template <>
struct Lanes<Format::q8_0> : LanesBase<34, kSignedZero, kSigned, false> {
  template <class At>
  MOTE_INLINE static void unpack(At at, __m256i codes[8]) {
    load_words(at, 2, codes);
    load_words(at, 18, codes + 4);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) codes[j] = from_signed(codes[j]);
  }
};

template <>
struct Lanes<Format::iq4_nl> : LanesBase<18, kSignedZero, kSigned, false> {
  template <class At>
  MOTE_INLINE static void unpack(At at, __m256i codes[8]) {
    const __m256i table = from_signed(_mm256_broadcastsi128_si256(
        _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)));
    load_nibbles(at, 2, codes);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) codes[j] = _mm256_shuffle_epi8(table, codes[j]);
  }
};

}   // namespace
}   // namespace mote
