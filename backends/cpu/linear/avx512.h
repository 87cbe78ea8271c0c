// What the AVX-512 kernels of `linear` share: 16 pieces of memory turned into words by lane, the fold.
// Included by files compiled with -mavx512{f,bw,vl,dq}; internal linkage throughout: see kernel_base.h.
//
// Two shapes of kernel keep the canonical order of linear.h at full speed:
//   few rows of x    lane = unit: 16 units of one weight row side by side, an accumulator is the 16 partial sums
//   panels of x      lane = weight row: units are visited partial sum by partial sum (`visit_units`), so that one
//                    partial sum of 32 weight rows times 6 rows of x lives in registers at a time. A second panel
//                    pays for unpacking a strip of weight rows; for one, units are unpacked where they are multiplied
// Both want bytes [k / 4][16 lanes][4], which `load_words` makes of 16 pieces of 16 bytes wherever they lie.
#pragma once
#include <immintrin.h>

#include "backends/cpu/linear/tile_order.h"

namespace mote {
namespace {

constexpr uint32_t kStripRows = 32;   // weight rows that a tile unpacks at a time
constexpr uint32_t kTileXRows = 6;    // rows of x that it multiplies with them at a time
constexpr uint32_t kFewRows = 2;      // rows of x up to which weights are read row by row instead

// The four words of each of four pieces side by side: words[j] = word j of rows[0..3], in every 128 bits.
MOTE_INLINE void transpose_words(const __m512i rows[4], __m512i words[4]) {
  const __m512i low01 = _mm512_unpacklo_epi32(rows[0], rows[1]), high01 = _mm512_unpackhi_epi32(rows[0], rows[1]);
  const __m512i low23 = _mm512_unpacklo_epi32(rows[2], rows[3]), high23 = _mm512_unpackhi_epi32(rows[2], rows[3]);
  words[0] = _mm512_unpacklo_epi64(low01, low23);
  words[1] = _mm512_unpackhi_epi64(low01, low23);
  words[2] = _mm512_unpacklo_epi64(high01, high23);
  words[3] = _mm512_unpackhi_epi64(high01, high23);
}

// at(i), i < 16, is the address of lane i; bytes [offset, offset + 16) of each become words[j] = bytes 4 j .. 4 j + 3
// of every lane.
template <class At>
MOTE_INLINE void load_words(At at, size_t offset, __m512i words[4]) {
  const auto piece = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at(i) + offset)); };
  __m512i rows[4];   // rows[r]: pieces r, r + 4, r + 8, r + 12
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) {
    rows[r] = _mm512_castsi128_si512(piece(r));
    rows[r] = _mm512_inserti32x4(rows[r], piece(r + 4), 1);
    rows[r] = _mm512_inserti32x4(rows[r], piece(r + 8), 2);
    rows[r] = _mm512_inserti32x4(rows[r], piece(r + 12), 3);
  }
  transpose_words(rows, words);
}

// The halves at `offset` of 16 lanes, widened. Put together in general registers, which have nothing else to do:
// inserts from memory would take the two ports that permute, and those are what `load_words` waits for.
template <class At>
MOTE_INLINE __m512 load_halves(At at, size_t offset) {
  const auto half = [&](int i) { return uint64_t{load_at<uint16_t>(at(i) + offset)}; };
  const auto four = [&](int i) {
    return static_cast<long long>(half(i) | half(i + 1) << 16 | half(i + 2) << 32 | half(i + 3) << 48);
  };
  return _mm512_cvtph_ps(_mm256_setr_epi64x(four(0), four(4), four(8), four(12)));
}

// The fold of linear.h: lanes i + 8 onto i, then 4, 2, 1.
MOTE_INLINE float fold_lanes(__m512 p) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(p), _mm512_extractf32x8_ps(p, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

MOTE_INLINE __m512i broadcast_word(const uint8_t* at) { return _mm512_set1_epi32(load_at<int32_t>(at)); }
MOTE_INLINE __m512 broadcast_float(const uint8_t* at) { return _mm512_set1_ps(load_at<float>(at)); }

}   // namespace
}   // namespace mote
