// What the kernels of `linear` in 256-bit registers share: 8 pieces of memory turned into words by lane, exact sums of
// products of bytes, the fold. Included by files compiled with -mavx2 -mfma -mf16c, for processors that have it also
// with an 8-bit dot product in 256 bits (-mavxvnni; tests compile the same source with -mavx512vl -mavx512vnni, whose
// instruction is the same but for its encoding). Internal linkage throughout: see kernel_base.h.
//
// The two shapes of kernel are those of avx512.h; the 16 partial sums are two registers.
#pragma once
#include <immintrin.h>

#include "backends/cpu/linear/linear.h"
#include "backends/cpu/linear/tile_order.h"

#if defined(__AVXVNNI__) || (defined(__AVX512VNNI__) && defined(__AVX512VL__))
#define MOTE_YMM_DOT 1
#else
#define MOTE_YMM_DOT 0
#endif

namespace mote {
namespace {

constexpr uint32_t kStripRows = 16;   // weight rows that a tile unpacks at a time
constexpr uint32_t kTileXRows = 4;    // rows of x that it multiplies with them at a time
constexpr uint32_t kFewRows = 11;     // rows of x up to which weights are read row by row instead

MOTE_INLINE __m256i load_vector(const uint8_t* at) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(at)); }
MOTE_INLINE void store_vector(uint8_t* to, __m256i v) { _mm256_store_si256(reinterpret_cast<__m256i*>(to), v); }
MOTE_INLINE __m256 load_floats(const uint8_t* at) { return _mm256_load_ps(reinterpret_cast<const float*>(at)); }
MOTE_INLINE void store_floats(uint8_t* to, __m256 v) { _mm256_store_ps(reinterpret_cast<float*>(to), v); }
MOTE_INLINE __m256i broadcast_word(const uint8_t* at) { return _mm256_set1_epi32(load_at<int32_t>(at)); }
MOTE_INLINE __m256 broadcast_float(const uint8_t* at) { return _mm256_set1_ps(load_at<float>(at)); }

// at(i), i < 8, is the address of lane i; bytes [offset, offset + 16) of each become words[j] = bytes 4 j .. 4 j + 3 of
// every lane.
template <class At>
MOTE_INLINE void load_words(At at, size_t offset, __m256i words[4]) {
  const auto piece = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at(i) + offset)); };
  __m256i rows[4];   // rows[r]: pieces r, r + 4
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) rows[r] = _mm256_inserti128_si256(_mm256_castsi128_si256(piece(r)), piece(r + 4), 1);
  const __m256i low01 = _mm256_unpacklo_epi32(rows[0], rows[1]), high01 = _mm256_unpackhi_epi32(rows[0], rows[1]);
  const __m256i low23 = _mm256_unpacklo_epi32(rows[2], rows[3]), high23 = _mm256_unpackhi_epi32(rows[2], rows[3]);
  words[0] = _mm256_unpacklo_epi64(low01, low23);
  words[1] = _mm256_unpackhi_epi64(low01, low23);
  words[2] = _mm256_unpacklo_epi64(high01, high23);
  words[3] = _mm256_unpackhi_epi64(high01, high23);
}

// The halves at `offset` of 8 lanes, widened.
template <class At>
MOTE_INLINE __m256 load_halves(At at, size_t offset) {
  const auto half = [&](int i) { return static_cast<short>(load_at<uint16_t>(at(i) + offset)); };
  return _mm256_cvtph_ps(_mm_setr_epi16(half(0), half(1), half(2), half(3), half(4), half(5), half(6), half(7)));
}

// The fold of linear.h: lanes i + 8 onto i, then 4, 2, 1.
MOTE_INLINE float fold_lanes(__m256 p0, __m256 p8) {
  const __m256 eight = _mm256_add_ps(p0, p8);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// Codes of weights that lie in signed bytes are multiplied as they are where there is no dot product, and with
// kSignedZero added where there is one, which takes them unsigned.
#if MOTE_YMM_DOT
constexpr uint32_t kSignedZero = 128;
MOTE_INLINE __m256i from_signed(__m256i codes) { return _mm256_xor_si256(codes, _mm256_set1_epi8(-128)); }
#else
constexpr uint32_t kSignedZero = 0;
MOTE_INLINE __m256i from_signed(__m256i codes) { return codes; }
#endif

// Exact sums of products in every lane of 32 bits. Of kWords words in a row: part = begin(sum), then for each of them
// part = add(part, weights, x), then sum = end(sum, part); end(sum, part, scale) multiplies what they add, for which
// begin() starts at 0. `largest` is that of the weights' codes, unsigned, or kSigned.
constexpr uint32_t kSigned = 128;
#if MOTE_YMM_DOT
template <uint32_t largest>
struct Products {
  static constexpr uint32_t kWords = 8;
  MOTE_INLINE static __m256i begin() { return _mm256_setzero_si256(); }
  MOTE_INLINE static __m256i begin(__m256i sum) { return sum; }
  MOTE_INLINE static __m256i add(__m256i part, __m256i weights, __m256i x) {
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(part, weights, x);
#else
    return _mm256_dpbusd_epi32(part, weights, x);
#endif
  }
  MOTE_INLINE static __m256i end(__m256i /*sum*/, __m256i part) { return part; }
};
#else
// gcc turns a chain of additions of integers into a tree whose leaves do not fit into the registers: of all products of
// a tile first, then all sums. A sum that it cannot look through keeps the tile in registers.
MOTE_INLINE __m256i keep_order(__m256i sum) {
  __asm__("" : "+x"(sum));
  return sum;
}

// Products are added in pairs of 16 bits, and these widened before they could overflow: a word adds at most
// 2 * largest * 127 to a pair. Signed weights as |w| times x with the sign of w: x is never -128, so that this is
// exact.
template <uint32_t largest>
struct Products {
  static constexpr uint32_t kFit = 32767 / (2 * 127 * largest);
  static constexpr uint32_t kWords = kFit >= 8 ? 8 : kFit >= 4 ? 4 : kFit >= 2 ? 2 : 1;
  static_assert(kFit >= 1);
  MOTE_INLINE static __m256i begin() { return _mm256_setzero_si256(); }
  MOTE_INLINE static __m256i begin(__m256i /*sum*/) { return _mm256_setzero_si256(); }
  MOTE_INLINE static __m256i add(__m256i part, __m256i weights, __m256i x) {
    if constexpr (largest == kSigned)
      return _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(x, weights));
    else
      return keep_order(_mm256_add_epi16(part, _mm256_maddubs_epi16(weights, x)));
  }
  MOTE_INLINE static __m256i end(__m256i sum, __m256i part) {
    return keep_order(_mm256_add_epi32(sum, _mm256_madd_epi16(part, _mm256_set1_epi16(1))));
  }
};
#endif

// The fold of a tile of 16 weight rows (lanes) and kRows rows of x, whose partial sums come in the order of
// `partial_of_step`: those that wait for their partner, in the end the outputs without bias.
template <uint32_t kRows>
struct Waiting {
  __m256 sums[5][kRows][2];

  MOTE_INLINE void add(uint32_t step, __m256 partial[kRows][2]) {
    uint32_t level = 0;
    for (; (step >> level & 1) != 0; ++level)
#pragma GCC unroll 6
      for (uint32_t m = 0; m < kRows; ++m)
#pragma GCC unroll 2
        for (uint32_t v = 0; v < 2; ++v) partial[m][v] = _mm256_add_ps(sums[level][m][v], partial[m][v]);
#pragma GCC unroll 6
    for (uint32_t m = 0; m < kRows; ++m)
#pragma GCC unroll 2
      for (uint32_t v = 0; v < 2; ++v) sums[level][m][v] = partial[m][v];
  }
  // The outputs of weight rows from `row` on, up to end_row.
  MOTE_INLINE void store(const LinearJob& job, uint32_t x_first, uint32_t row) const {
    const uint32_t live = job.end_row - row < kStripRows ? job.end_row - row : kStripRows;
#pragma GCC unroll 2
    for (uint32_t v = 0; v < 2; ++v) {
      const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
      const __m256i mask =
          _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(live) - static_cast<int>(8 * v)), lanes);
      const uint32_t at = row + 8 * v;
      for (uint32_t m = 0; m < kRows && live > 8 * v; ++m) {
        __m256 sum = sums[4][m][v];
        if (job.bias != nullptr) sum = _mm256_add_ps(sum, _mm256_maskload_ps(job.bias + at, mask));
        _mm256_maskstore_ps(job.y + (x_first + m) * job.y_columns + at, mask, sum);
      }
    }
  }
};

}   // namespace
}   // namespace mote
