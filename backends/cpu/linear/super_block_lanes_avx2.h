// Super-blocks of 256 weights in 256-bit registers: one `SuperLanes` per format, for both shapes of kernel. Internal
// linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/avx2.h"
#include "core/format/format.h"

namespace mote {
namespace {

// A format: kBytes of a super-block, kSubs sub-blocks, kLargest of the codes (see `Products`), which are unsigned, and
//   with kMins   whole and mins of linear.h
//   without      whole less kZero times the same sum as mins, with the scales in place of mins
// few rows of x:   chunk(block, c): the codes of values 32 c .. 32 c + 31; scales(block): the scale of chunk c is word
// c
//                  of both halves, for the 16 values each; per_16(block): min, or scale, of each 16 values
//                  scale16(block), min16(block): the halves d and dmin
// many rows of x:  unpack(at, to): the super-blocks at at(0) .. at(7) to their 8 lanes of a strip, see `StripBlock`
template <Format format>
struct SuperLanes;

// What a strip has of a super-block of its 16 rows, 64 bytes for each of: codes of 4 values [64]; scales [kSubs] as
// `Products` wants them; pairs [8]: per_16 of 16 values each, two to a lane; d; dmin.
template <uint32_t subs>
struct StripBlock {
  static constexpr uint32_t kScales = 64 * 64, kPairs = kScales + subs * 64, kD = kPairs + 8 * 64, kMin = kD + 64;
  static constexpr uint32_t kBytes = kMin + 64;
};

MOTE_INLINE __m256i byte_of(__m256i words, uint32_t byte) {
  return _mm256_and_si256(_mm256_srli_epi32(words, static_cast<int>(8 * byte)), _mm256_set1_epi32(255));
}
MOTE_INLINE __m256i both_halves(__m256i lane) { return _mm256_or_si256(lane, _mm256_slli_epi32(lane, 16)); }

template <>
struct SuperLanes<Format::q4_k> {
  static constexpr uint32_t kBytes = 144, kSubs = 8, kLargest = 15, kZero = 0;
  static constexpr bool kMins = true;
  static uint16_t scale16(const uint8_t* b) { return load_at<uint16_t>(b); }
  static uint16_t min16(const uint8_t* b) { return load_at<uint16_t>(b + 2); }

  MOTE_INLINE static __m256i chunk(const uint8_t* b, uint32_t c) {
    const __m256i raw = load_32(b + 16 + c / 2 * 32);
    return _mm256_and_si256(c % 2 == 0 ? raw : _mm256_srli_epi16(raw, 4), _mm256_set1_epi8(15));
  }
  // Eight scales and eight mins of six bits from twelve bytes, as eight bytes each: core/format/blocks.h says where.
  MOTE_INLINE static uint64_t six_bits(const uint8_t* s, uint32_t which) {
    const uint32_t first = load_at<uint32_t>(s + 4 * which), last = load_at<uint32_t>(s + 8) >> (4 * which);
    const uint32_t high = (last & 0x0f0f0f0fu) | (first >> 2 & 0x30303030u);
    return uint64_t{high} << 32 | (first & 0x3f3f3f3fu);
  }
  MOTE_INLINE static __m256i scales(const uint8_t* b) {
    return _mm256_broadcastsi128_si256(_mm_cvtepu8_epi16(_mm_cvtsi64_si128(static_cast<int64_t>(six_bits(b + 4, 0)))));
  }
  MOTE_INLINE static __m256i per_16(const uint8_t* b) {
    const __m128i mins = _mm_cvtsi64_si128(static_cast<int64_t>(six_bits(b + 4, 1)));
    return _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(mins, mins));
  }

  template <class At>
  MOTE_INLINE static void unpack(At at, uint8_t* to) {
    using Place = StripBlock<kSubs>;
    const __m256i low4 = _mm256_set1_epi8(15);
    for (uint32_t piece = 0; piece < 8; ++piece) {   // of 16 bytes: sub-blocks 2 j and 2 j + 1, half of each
      __m256i raw[4];
      load_words(at, 16 + piece * 16, raw);
      uint8_t* const codes = to + (piece / 2 * 16 + piece % 2 * 4) * 64;
#pragma GCC unroll 4
      for (uint32_t w = 0; w < 4; ++w) {
        store_vector(codes + w * 64, _mm256_and_si256(raw[w], low4));
        store_vector(codes + (8 + w) * 64, _mm256_and_si256(_mm256_srli_epi16(raw[w], 4), low4));
      }
    }
    __m256i header[4];   // d and dmin, then the twelve bytes
    load_words(at, 0, header);
    const __m256i six = _mm256_set1_epi8(63), four = _mm256_set1_epi8(15), two = _mm256_set1_epi8(0x30);
    const auto upper = [&](__m256i low, __m256i nibbles) {
      return _mm256_or_si256(_mm256_and_si256(nibbles, four), _mm256_and_si256(_mm256_srli_epi16(low, 2), two));
    };
    const __m256i scales[2] = {_mm256_and_si256(header[1], six), upper(header[1], header[3])};
    const __m256i mins[2] = {_mm256_and_si256(header[2], six), upper(header[2], _mm256_srli_epi16(header[3], 4))};
#pragma GCC unroll 8
    for (uint32_t j = 0; j < 8; ++j) {
      const __m256i scale = byte_of(scales[j / 4], j % 4);
      store_vector(to + Place::kScales + j * 64, Products<kLargest>::scale_of(scale));
      store_vector(to + Place::kPairs + j * 64, both_halves(byte_of(mins[j / 4], j % 4)));
    }
    store_floats(to + Place::kD, load_halves(at, 0));
    store_floats(to + Place::kMin, load_halves(at, 2));
  }
};

template <>
struct SuperLanes<Format::q6_k> {
  static constexpr uint32_t kBytes = 210, kSubs = 16, kLargest = 63, kZero = 32;
  static constexpr bool kMins = false;
  static uint16_t scale16(const uint8_t* b) { return load_at<uint16_t>(b + 208); }
  static uint16_t min16(const uint8_t*) { return 0; }

  // The low bits of 4 k .. of a half of 128 values, k of 4, with the high ones: `low` holds k % 2.
  MOTE_INLINE static __m256i join(__m256i low, __m256i high, uint32_t k) {
    const __m256i shifted = k == 0   ? _mm256_slli_epi16(high, 4)
                            : k == 1 ? _mm256_slli_epi16(high, 2)
                            : k == 2 ? high
                                     : _mm256_srli_epi16(high, 2);
    return _mm256_or_si256(_mm256_and_si256(k < 2 ? low : _mm256_srli_epi16(low, 4), _mm256_set1_epi8(15)),
                           _mm256_and_si256(shifted, _mm256_set1_epi8(0x30)));
  }
  MOTE_INLINE static __m256i chunk(const uint8_t* b, uint32_t c) {
    const uint32_t half = c / 4, k = c % 4;
    return join(load_32(b + 64 * half + 32 * (k % 2)), load_32(b + 128 + 32 * half), k);
  }
  MOTE_INLINE static __m256i scales(const uint8_t* b) {
    const __m128i bytes = load_16(b + 192);
    return _mm256_set_m128i(_mm_srai_epi16(bytes, 8), _mm_srai_epi16(_mm_slli_epi16(bytes, 8), 8));
  }
  MOTE_INLINE static __m256i per_16(const uint8_t* b) { return _mm256_cvtepi8_epi16(load_16(b + 192)); }

  template <class At>
  MOTE_INLINE static void unpack(At at, uint8_t* to) {
    using Place = StripBlock<kSubs>;
    for (uint32_t half = 0; half < 2; ++half)
      for (uint32_t piece = 0; piece < 2; ++piece) {   // 16 of each 32 values
        __m256i high[4], low[2][4];
        load_words(at, 128 + half * 32 + piece * 16, high);
        load_words(at, half * 64 + piece * 16, low[0]);
        load_words(at, half * 64 + 32 + piece * 16, low[1]);
#pragma GCC unroll 4
        for (uint32_t k = 0; k < 4; ++k)
#pragma GCC unroll 4
          for (uint32_t w = 0; w < 4; ++w)
            store_vector(to + (half * 32 + k * 8 + piece * 4 + w) * 64, join(low[k % 2][w], high[w], k));
      }
    __m256i scales[4];
    load_words(at, 192, scales);
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; ++i) {
      const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(scales[i], 8), 8), odd = _mm256_srai_epi16(scales[i], 8);
      // Words 0, 2 and 1, 3 of the four, to pairs 0, 1 and 2, 3.
      store_vector(to + Place::kPairs + i * 128, _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xaa));
      store_vector(to + Place::kPairs + i * 128 + 64, _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xaa));
#pragma GCC unroll 4
      for (uint32_t t = 0; t < 4; ++t) {
        const __m256i scale = _mm256_srai_epi32(_mm256_slli_epi32(scales[i], static_cast<int>(24 - 8 * t)), 24);
        store_vector(to + Place::kScales + (i * 4 + t) * 64, Products<kLargest>::scale_of(scale));
      }
    }
    store_floats(to + Place::kD, load_halves(at, 208));
  }
};

}   // namespace
}   // namespace mote
