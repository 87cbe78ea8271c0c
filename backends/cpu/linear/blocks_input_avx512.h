// The form of x that blocks_avx512.h reads: quantised as linear.h says and laid out for its two shapes of kernel.
// Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/avx512.h"
#include "backends/cpu/linear/linear.h"

namespace mote {
namespace {

// Up to kFewRows rows: row by row groups of 16 blocks, kGroupBytes each: codes [8][16 blocks][4], scales [16],
// extras [16]. The blocks behind the last whole group are one group more, in which block i stands in lanes i, i + rest,
// i + 2 rest ...: several weight rows share it.
// More rows: panels of kTileXRows (the last one has what is left), in a panel blocks in visiting order: codes
// [8][rows][4], scales [rows], extras [rows].
// The extra is the integer -zero * sum, or, in a format with mins, the float sum.
constexpr uint32_t kGroupBytes = 512 + 64 + 64, kTileBlockBytes = 32 + 4 + 4;

inline uint64_t few_rows_bytes(uint32_t rows, uint32_t columns) {
  return uint64_t{rows} * ((columns / 32 + kLanes - 1) / kLanes) * kGroupBytes;
}
inline uint64_t blocks_form_bytes(uint32_t rows, uint32_t columns) {
  const uint64_t few = few_rows_bytes(rows < kFewRows ? rows : kFewRows, columns);
  const uint64_t tiles = (uint64_t{rows} * (columns / 32) * kTileBlockBytes + 63) / 64 * 64;
  return rows <= kFewRows || few > tiles ? few : tiles;
}

// 16 blocks of x, wherever they lie, by the rules of linear.h: block i becomes codes[32 i ..], lane i of the others.
struct BlocksOfX {
  alignas(64) int8_t codes[16 * 32];
  __m512 scale;
  __m512i sum;
};

// Lane i: f over the lanes of v[i].
template <class F>
MOTE_INLINE __m512i reduce_16(__m512i v[16], F f) {
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i)
    v[i] = f(_mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]), _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    v[i] = f(_mm512_unpacklo_epi64(v[2 * i], v[2 * i + 1]), _mm512_unpackhi_epi64(v[2 * i], v[2 * i + 1]));
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i)
    v[i] = f(_mm512_shuffle_i32x4(v[2 * i], v[2 * i + 1], 0x88), _mm512_shuffle_i32x4(v[2 * i], v[2 * i + 1], 0xdd));
  return f(_mm512_shuffle_i32x4(v[0], v[1], 0x88), _mm512_shuffle_i32x4(v[0], v[1], 0xdd));
}

MOTE_INLINE void quantize_blocks(const float* const from[16], BlocksOfX& to) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff), infinity = _mm512_set1_epi32(0x7f800000);
  __m512i v[16];   // the bits of |x| rise with |x|; infinity and NaN are above all
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i)
    v[i] = _mm512_max_epi32(_mm512_and_si512(_mm512_loadu_si512(from[i]), magnitude),
                            _mm512_and_si512(_mm512_loadu_si512(from[i] + 16), magnitude));
  const __m512i top = reduce_16(v, [](__m512i a, __m512i b) { return _mm512_max_epi32(a, b); });
  const __m512 largest = _mm512_castsi512_ps(top), full = _mm512_set1_ps(127.0f);
  const __mmask16 finite = _mm512_cmplt_epi32_mask(top, infinity);
  const __mmask16 usual = finite & _mm512_cmp_ps_mask(largest, _mm512_set1_ps(0x1p-100f), _CMP_GE_OQ);
  to.scale = _mm512_mask_mov_ps(_mm512_maskz_div_ps(usual, largest, full), static_cast<__mmask16>(~finite),
                                _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)));
  alignas(64) float inverse[16];
  _mm512_store_ps(inverse, _mm512_maskz_div_ps(usual, full, largest));
  // A block that is not usual is multiplied by 0: a NaN becomes the integer whose low byte is 0.
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const __m512 by = _mm512_set1_ps(inverse[i]);
    const __m512i low = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(from[i]), by));
    const __m512i high = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(from[i] + 16), by));
    _mm_store_si128(reinterpret_cast<__m128i*>(to.codes + 32 * i), _mm512_cvtepi32_epi8(low));
    _mm_store_si128(reinterpret_cast<__m128i*>(to.codes + 32 * i + 16), _mm512_cvtepi32_epi8(high));
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const __m256i codes = _mm256_load_si256(reinterpret_cast<const __m256i*>(to.codes + 32 * i));
    v[i] = _mm512_zextsi256_si512(_mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), codes));
  }
  to.sum = reduce_16(v, [](__m512i a, __m512i b) { return _mm512_add_epi32(a, b); });
}

template <uint32_t zero, bool mins>
MOTE_INLINE __m512i extras_of(__m512i sum) {
  if constexpr (mins)
    return _mm512_castps_si512(_mm512_cvtepi32_ps(sum));
  else
    return _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_mullo_epi32(sum, _mm512_set1_epi32(zero)));
}

template <uint32_t zero, bool mins>
void make_few_rows(const InputJob& job) {
  const uint32_t blocks = job.columns / 32, rest = blocks % kLanes;
  uint8_t* group = job.input + job.first_row * static_cast<size_t>(few_rows_bytes(1, job.columns));
  for (uint32_t row = job.first_row; row < job.end_row; ++row) {
    const float* x = job.x + size_t{row} * job.columns;
    for (uint32_t b = 0; b < blocks; b += kLanes, group += kGroupBytes) {
      const uint32_t apart = blocks - b < kLanes ? rest : kLanes;
      const float* from[16];
      for (uint32_t lane = 0, block = b; lane < kLanes; ++lane) {
        from[lane] = x + size_t{block} * 32;
        block = block + 1 == b + apart ? b : block + 1;
      }
      BlocksOfX made;
      quantize_blocks(from, made);
      const auto at = [&made](int i) { return reinterpret_cast<const uint8_t*>(made.codes + 32 * i); };
      __m512i words[8];
      load_words(at, 0, words);
      load_words(at, 16, words + 4);
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) _mm512_store_si512(group + 64 * j, words[j]);
      _mm512_store_ps(group + 512, made.scale);
      _mm512_store_si512(group + 576, extras_of<zero, mins>(made.sum));
    }
  }
}

// `count` units of `rows` rows of x, side by side in the lanes: lane u * rows + r. from[lane] is its block.
template <uint32_t zero, bool mins>
MOTE_INLINE void make_units(const float* const from[16], uint32_t count, uint32_t rows, uint8_t* to) {
  BlocksOfX made;
  quantize_blocks(from, made);
  const auto at = [&made](int i) { return reinterpret_cast<const uint8_t*>(made.codes + 32 * i); };
  __m512i words[10];
  load_words(at, 0, words);
  load_words(at, 16, words + 4);
  words[8] = _mm512_castps_si512(made.scale);
  words[9] = extras_of<zero, mins>(made.sum);
  const __mmask16 live = static_cast<__mmask16>((1u << rows) - 1);
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (uint32_t u = 0; u < count; ++u) {
    const __m512i own = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int32_t>(u * rows)));
#pragma GCC unroll 10
    for (uint32_t j = 0; j < 10; ++j, to += rows * 4)
      _mm512_mask_storeu_epi32(to, live, _mm512_permutexvar_epi32(own, words[j]));
  }
}

template <uint32_t zero, bool mins>
void make_panels(const InputJob& job) {
  const uint32_t blocks = job.columns / 32;
  for (uint32_t first = job.first_row; first < job.end_row; first += kTileXRows) {
    const uint32_t rows = job.rows - first < kTileXRows ? job.rows - first : kTileXRows;
    const uint32_t together = kLanes / rows;
    const float* x = job.x + size_t{first} * job.columns;
    uint8_t* to = job.input + size_t{first} * blocks * kTileBlockBytes;
    const float* from[16];
    for (const float*& lane : from) lane = x;   // those that are left over look at something
    uint32_t count = 0;
    const auto flush = [&] {
      make_units<zero, mins>(from, count, rows, to);
      to += count * rows * kTileBlockBytes;
      count = 0;
    };
    visit_units(blocks, [&](uint32_t b) {
      for (uint32_t row = 0; row < rows; ++row)
        from[count * rows + row] = x + row * size_t{job.columns} + size_t{b} * 32;
      if (++count == together) flush();
    });
    if (count != 0) flush();
  }
}

template <uint32_t zero, bool mins>
void make_blocks(const InputJob& job) {
  if (job.rows <= kFewRows)
    make_few_rows<zero, mins>(job);
  else
    make_panels<zero, mins>(job);
}

template <uint32_t zero, bool mins>
constexpr InputForm kBlocksForm = {make_blocks<zero, mins>, blocks_form_bytes, kTileXRows};

}   // namespace
}   // namespace mote
