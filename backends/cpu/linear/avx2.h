// What the kernels of `linear` in 256-bit registers share: 8 pieces of memory turned into words by lane, exact sums of
// products of bytes, the fold. Included by files compiled with -mavx2 -mfma -mf16c, for processors that have it also
// with an 8-bit dot product in 256 bits (-mavxvnni; tests compile the same source with -mavx512vl -mavx512vnni, whose
// instruction is the same but for its encoding). Internal linkage throughout: see kernel_base.h.
//
// The two shapes of kernel are those of avx512.h; the 16 partial sums are two registers.
#pragma once
#include <immintrin.h>

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
constexpr uint32_t kFewRows = 4;      // rows of x up to which weights are read row by row instead

MOTE_INLINE __m256i load_vector(const uint8_t* at) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(at)); }
MOTE_INLINE void store_vector(uint8_t* to, __m256i v) { _mm256_store_si256(reinterpret_cast<__m256i*>(to), v); }
MOTE_INLINE __m256 load_floats(const uint8_t* at) { return _mm256_load_ps(reinterpret_cast<const float*>(at)); }
MOTE_INLINE void store_floats(uint8_t* to, __m256 v) { _mm256_store_ps(reinterpret_cast<float*>(to), v); }
// Bytes at any address.
MOTE_INLINE __m256i load_32(const uint8_t* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
MOTE_INLINE __m128i load_16(const uint8_t* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }
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

// gcc turns a chain of additions of integers into a tree whose leaves do not fit into the registers: of all products of
// a tile first, then all sums. A sum that it cannot look through keeps the tile in registers.
MOTE_INLINE __m256i keep_order(__m256i sum) {
  __asm__("" : "+x"(sum));
  return sum;
}

// Exact sums of products in every lane of 32 bits. Of kWords words in a row: part = begin(sum), then for each of them
// part = add(part, weights, x), then sum = end(sum, part). Between begin() and end(sum, part, scale_of(scale)) what
// they add is multiplied. `largest` is that of the weights' codes, unsigned, or kSigned.
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
  MOTE_INLINE static __m256i end(__m256i sum, __m256i part, __m256i scale) {
    return _mm256_add_epi32(sum, _mm256_mullo_epi32(part, scale));
  }
  MOTE_INLINE static __m256i scale_of(__m256i scale) { return scale; }
};
#else
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
  MOTE_INLINE static __m256i end(__m256i sum, __m256i part) { return end(sum, part, _mm256_set1_epi16(1)); }
  MOTE_INLINE static __m256i end(__m256i sum, __m256i part, __m256i scale) {
    return keep_order(_mm256_add_epi32(sum, _mm256_madd_epi16(part, scale)));
  }
  MOTE_INLINE static __m256i scale_of(__m256i scale) {   // 16 bits, in both halves of a lane
    return _mm256_or_si256(_mm256_and_si256(scale, _mm256_set1_epi32(0xffff)), _mm256_slli_epi32(scale, 16));
  }
};
#endif

// ------------------------------------------------------------------------------------------ x as bytes

MOTE_INLINE int32_t add_lanes(__m256i v) {
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
MOTE_INLINE int32_t largest_lane(__m256i v) {
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

// The bits of |x| of the largest of 32 `chunks` values: they rise with |x|; infinity and NaN are above all.
template <uint32_t chunks>
MOTE_INLINE int32_t largest_magnitude(const float* x) {
  __m256i tops = _mm256_setzero_si256();
#pragma GCC unroll 32
  for (uint32_t i = 0; i < chunks * 4; ++i)
    tops = _mm256_max_epi32(
        tops, _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x + 8 * i)), _mm256_set1_epi32(0x7fffffff)));
  return largest_lane(tops);
}
// The scale of a block whose largest magnitude has these bits, and what its values are multiplied by; false if it has
// no codes but 0.
MOTE_INLINE bool scales_of_block(int32_t top, float* scale, __m256* inverse) {
  const float largest = bits_as<float>(top);
  if (top >= 0x7f800000 || largest < 0x1p-100f) {
    *scale = top >= 0x7f800000 ? bits_as<float>(0x7fc00000u) : 0.0f;
    return false;
  }
  *scale = largest / 127.0f;
  *inverse = _mm256_set1_ps(127.0f / largest);
  return true;
}
// 32 values to codes.
MOTE_INLINE __m256i codes_of(const float* x, __m256 inverse) {
  const auto rounded = [&](int i) { return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), inverse)); };
  // Packing keeps to halves of the register: words 0, 4, 1, 5, 2, 6, 3, 7 come out.
  const __m256i packed =
      _mm256_packs_epi16(_mm256_packs_epi32(rounded(0), rounded(1)), _mm256_packs_epi32(rounded(2), rounded(3)));
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
// The sum of the four codes of each lane.
MOTE_INLINE __m256i sum_fours(__m256i codes) {
  return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), codes), _mm256_set1_epi16(1));
}

}   // namespace
}   // namespace mote
