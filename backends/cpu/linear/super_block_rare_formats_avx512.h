// The structs of super_block_formats_avx512.h for the formats that are met less often. Internal linkage: see
// kernel_base.h.
#pragma once
#include "backends/cpu/linear/super_block_formats_avx512.h"

namespace mote {
namespace {

// ------------------------------------------------------------------------------------------ Q2_K, Q3_K

// 16 sub-blocks of 16. Sub-block 8 n + 2 j + h: bits 2 j of bytes 32 n + 16 h ..: a lane is 16 of these bytes, and the
// group their bits.
template <int zero, bool mins>
struct BitPairs : SuperBlockInput<16, zero, mins, false> {
  static constexpr Source source(uint32_t group, uint32_t lane) {
    return {lane / 4, lane % 4 / 2 * 8 + group * 2 + lane % 2};
  }
};

// The 16 bytes at `offset` of each of four super-blocks.
template <class At>
MOTE_INLINE __m512i load_four(At at, size_t offset) {
  const auto piece = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at(i) + offset)); };
  const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(piece(0)), piece(1), 1);
  const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(piece(2)), piece(3), 1);
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
// Bytes a, b, c and d of every 16, as numbers of 32 bits.
MOTE_INLINE __m512i pick_bytes(__m512i from, int a, int b, int c, int d) {
  const auto one = [](int byte) { return static_cast<int>(0xffffff00u | static_cast<uint32_t>(byte)); };
  return _mm512_shuffle_epi8(from, _mm512_set4_epi32(one(d), one(c), one(b), one(a)));
}
MOTE_INLINE __m512i low_bits(__m512i words, int mask) { return _mm512_and_si512(words, _mm512_set1_epi32(mask)); }

struct SuperBlockQ2K {
  using Input = BitPairs<0, true>;
  static constexpr uint32_t kBytes = 84;
  static constexpr int kOddShift = 0;

  template <class At>
  MOTE_INLINE static void unpack_step(At at, __m512i codes[16], __m512i scales[4]) {
    __m512i raw[4];
    load_words([&](int i) { return at(i / 4) + i % 4 * 16; }, 16, raw);
    const __m512i bytes = load_four(at, 0);
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
#pragma GCC unroll 4
      for (int w = 0; w < 4; ++w)
        codes[g * 4 + w] = _mm512_and_si512(_mm512_srli_epi32(raw[w], static_cast<unsigned>(2 * g)), bytes_of(3));
      scales[g] = low_bits(pick_bytes(bytes, 2 * g, 2 * g + 1, 8 + 2 * g, 9 + 2 * g), 15);
    }
  }
  template <class At>
  MOTE_INLINE static void load_mins(At at, __m512i mins[2]) {
    const __m512i high = _mm512_and_si512(_mm512_srli_epi32(load_four(at, 0), 4), bytes_of(15));
    mins[0] = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(high));
    mins[1] = _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(high, 1));
  }
  template <class At>
  MOTE_INLINE static __m256 load_scales(At at) {
    const auto both = [&](int i) { return load_at<int32_t>(at(i) + 80); };
    const __m128i order = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    return _mm256_cvtph_ps(_mm_shuffle_epi8(_mm_setr_epi32(both(0), both(1), both(2), both(3)), order));
  }
  template <class At>
  MOTE_INLINE static void unpack_rows(At at, uint8_t* to) {
    using Place = Strip<Input>;
    for (uint32_t piece = 0; piece < 4; ++piece) {   // 2 n + h
      __m512i raw[4];
      load_words(at, 16 + piece * 16, raw);
#pragma GCC unroll 4
      for (uint32_t j = 0; j < 4; ++j)
#pragma GCC unroll 4
        for (uint32_t w = 0; w < 4; ++w)
          _mm512_store_si512(to + ((piece / 2 * 8 + j * 2 + piece % 2) * 4 + w) * 128,
                             _mm512_and_si512(_mm512_srli_epi32(raw[w], 2 * j), bytes_of(3)));
    }
    __m512i bytes[4];
    load_words(at, 0, bytes);
#pragma GCC unroll 16
    for (uint32_t j = 0; j < 16; ++j)
      _mm512_store_si512(to + Place::kScales + j * 128, low_bits(byte_of(bytes[j / 4], j % 4), 15));
#pragma GCC unroll 8
    for (uint32_t j = 0; j < 8; ++j)
      _mm512_store_si512(to + Place::kMin + j * 128,
                         low_bits(_mm512_srli_epi32(two_bytes_of(bytes[j / 2], j % 2 * 2), 4), 0x000f000f));
    _mm512_store_ps(to + Place::kD, load_halves(at, 80));
    _mm512_store_ps(to + Place::kMinD, load_halves(at, 82));
  }
};

// The third bit of each code in a mask of 32 bytes: bit 4 n + j of byte 16 h + i.
struct SuperBlockQ3K {
  using Input = BitPairs<4, false>;
  static constexpr uint32_t kBytes = 110;
  static constexpr int kOddShift = 0;
  static constexpr size_t kScalesLess2 = 94;   // 16 bytes that end with the block: two, the 12 of the scales, d

  // Bits 2 j of `raw`, bit j of `mask` above them.
  MOTE_INLINE static __m512i codes_of(__m512i raw, __m512i mask, uint32_t j) {
    const __m512i third = j < 2 ? _mm512_slli_epi32(mask, 2 - j) : _mm512_srli_epi32(mask, j - 2);
    return _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(raw, 2 * j), bytes_of(3)),
                           _mm512_and_si512(third, bytes_of(4)));
  }
  MOTE_INLINE static __m512i scale_of(__m512i low, __m512i high) {
    return _mm512_sub_epi32(_mm512_or_si512(low_bits(low, 15), _mm512_slli_epi32(low_bits(high, 3), 4)),
                            _mm512_set1_epi32(32));
  }
  template <class At>
  MOTE_INLINE static void unpack_step(At at, __m512i codes[16], __m512i scales[4]) {
    const __m512i second_half = _mm512_set4_epi32(4, 4, 0, 0);   // n is 1 in lanes 2 and 3
    __m512i raw[4], mask[4];
    load_words([&](int i) { return at(i / 4) + i % 4 * 16; }, 32, raw);
    load_words([&](int i) { return at(i / 4) + i % 2 * 16; }, 0, mask);
    const __m512i bytes = load_four(at, kScalesLess2);
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w) mask[w] = _mm512_srlv_epi32(mask[w], second_half);
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
#pragma GCC unroll 4
      for (int w = 0; w < 4; ++w) codes[g * 4 + w] = codes_of(raw[w], mask[w], static_cast<uint32_t>(g));
      const int low = 2 + 2 * g, high = 10 + 2 * g % 4;
      scales[g] =
          scale_of(_mm512_srlv_epi32(pick_bytes(bytes, low, low + 1, low, low + 1), second_half),
                   _mm512_srli_epi32(_mm512_srlv_epi32(pick_bytes(bytes, high, high + 1, high, high + 1), second_half),
                                     static_cast<unsigned>(g / 2 * 2)));
    }
  }
  template <class At>
  MOTE_INLINE static __m256 load_scales(At at) {
    const auto word = [&](int i) { return load_at<int32_t>(at(i) + 106); };   // d in its upper half
    const __m128i d = _mm_srli_epi32(_mm_setr_epi32(word(0), word(1), word(2), word(3)), 16);
    return _mm256_cvtph_ps(_mm_packus_epi32(d, d));
  }
  template <class At>
  MOTE_INLINE static void unpack_rows(At at, uint8_t* to) {
    using Place = Strip<Input>;
#pragma GCC unroll 2
    for (uint32_t h = 0; h < 2; ++h) {
      __m512i mask[4], raw[2][4];
      load_words(at, 16 * h, mask);
      load_words(at, 32 + 16 * h, raw[0]);
      load_words(at, 64 + 16 * h, raw[1]);
#pragma GCC unroll 8
      for (uint32_t nj = 0; nj < 8; ++nj)
#pragma GCC unroll 4
        for (uint32_t w = 0; w < 4; ++w)
          _mm512_store_si512(to + ((nj * 2 + h) * 4 + w) * 128,
                             codes_of(raw[nj / 4][w], nj < 4 ? mask[w] : _mm512_srli_epi32(mask[w], 4), nj % 4));
    }
    __m512i bytes[4];
    load_words(at, kScalesLess2, bytes);
    const auto byte = [&](uint32_t i) { return byte_of(bytes[(i + 2) / 4], (i + 2) % 4); };
#pragma GCC unroll 16
    for (uint32_t s = 0; s < 16; ++s)
      _mm512_store_si512(to + Place::kScales + s * 128, scale_of(_mm512_srli_epi32(byte(s % 8), s / 8 * 4),
                                                                 _mm512_srli_epi32(byte(8 + s % 4), s / 4 * 2)));
    store_d(to + Place::kD, _mm512_srli_epi32(bytes[3], 16));
  }
};

// ------------------------------------------------------------------------------------------ IQ4_XS

// Bytes 16 j .. 16 j + 15 of the nibbles hold sub-block j: a lane is these bytes, the group the nibble.
struct NibblesBy16 : SuperBlockInput<32, 128, false, true> {
  static constexpr Source source(uint32_t group, uint32_t lane) {
    return {group / 2 * 2 + lane / 8, lane % 4 * 4 + lane % 8 / 4 * 2 + group % 2};
  }
};

struct SuperBlockIq4Xs {
  using Input = NibblesBy16;
  static constexpr uint32_t kBytes = 136;
  static constexpr int kOddShift = 0;

  // The format's table, 128 added.
  MOTE_INLINE static __m512i look_up(__m512i nibbles) {
    const __m128i table = _mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, -127, -115, -103, -90, -75, -59, -39, -15);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), _mm512_and_si512(nibbles, bytes_of(15)));
  }
  template <class At>
  MOTE_INLINE static void unpack_step(At at, __m512i codes[16], __m512i scales[4]) {
    const __m512i j = _mm512_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7, 0, 2, 4, 6, 1, 3, 5, 7);   // the sub-block of a lane
#pragma GCC unroll 2
    for (int pair = 0; pair < 2; ++pair) {
      const uint8_t *block0 = at(2 * pair), *block1 = at(2 * pair + 1);
      __m512i raw[4];
      load_pair_words(block0, block1, 8, raw);
#pragma GCC unroll 4
      for (int w = 0; w < 4; ++w) {
        codes[8 * pair + w] = look_up(raw[w]);
        codes[8 * pair + 4 + w] = look_up(_mm512_srli_epi32(raw[w], 4));
      }
      const auto both = [&](size_t offset) {
        return _mm512_mask_set1_epi32(_mm512_set1_epi32(load_at<int32_t>(block0 + offset)), 0xff00,
                                      load_at<int32_t>(block1 + offset));
      };
      const __m512i low = _mm512_srlv_epi32(both(4), _mm512_slli_epi32(j, 2));
      const __m512i high = _mm512_srlv_epi32(_mm512_srli_epi32(both(0), 16), _mm512_add_epi32(j, j));
      scales[2 * pair] = scales[2 * pair + 1] = SuperBlockQ3K::scale_of(low, high);
    }
  }
  template <class At>
  MOTE_INLINE static __m256 load_scales(At at) {
    const auto word = [&](int i) { return load_at<uint16_t>(at(i)); };
    const __m128i d = _mm_setr_epi32(word(0), word(1), word(2), word(3));
    return _mm256_cvtph_ps(_mm_packus_epi32(d, d));
  }
  template <class At>
  MOTE_INLINE static void unpack_rows(At at, uint8_t* to) {
    using Place = Strip<Input>;
    for (uint32_t j = 0; j < 8; ++j) {
      __m512i raw[4];
      load_words(at, 8 + j * 16, raw);
#pragma GCC unroll 4
      for (uint32_t w = 0; w < 4; ++w) {
        _mm512_store_si512(to + (j * 8 + w) * 128, look_up(raw[w]));
        _mm512_store_si512(to + (j * 8 + 4 + w) * 128, look_up(_mm512_srli_epi32(raw[w], 4)));
      }
    }
    __m512i head[4];
    load_words(at, 0, head);
#pragma GCC unroll 8
    for (uint32_t j = 0; j < 8; ++j)
      _mm512_store_si512(
          to + Place::kScales + j * 128,
          SuperBlockQ3K::scale_of(_mm512_srli_epi32(head[1], 4 * j), _mm512_srli_epi32(head[0], 16 + 2 * j)));
    store_d(to + Place::kD, head[0]);
  }
};

}   // namespace
}   // namespace mote
