// The form of x that blocks_avx2.h reads: quantised as linear.h says and laid out for its two shapes of kernel.
// Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/avx2.h"
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

struct BlockOfX {
  alignas(32) uint8_t codes[32];
  float scale;
  int32_t sum;
};
MOTE_INLINE BlockOfX quantize_block(const float* from) {
  __m256 x[4];
  __m256i tops = _mm256_setzero_si256();   // the bits of |x| rise with |x|; infinity and NaN are above all
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    x[i] = _mm256_loadu_ps(from + 8 * i);
    tops = _mm256_max_epi32(tops, _mm256_and_si256(_mm256_castps_si256(x[i]), _mm256_set1_epi32(0x7fffffff)));
  }
  const __m128i top4 = _mm_max_epi32(_mm256_castsi256_si128(tops), _mm256_extracti128_si256(tops, 1));
  const __m128i top2 = _mm_max_epi32(top4, _mm_shuffle_epi32(top4, 0x4e));
  const int32_t top = _mm_cvtsi128_si32(_mm_max_epi32(top2, _mm_shuffle_epi32(top2, 0xb1)));
  const float largest = bits_as<float>(top);
  if (top >= 0x7f800000 || largest < 0x1p-100f) return {{}, top >= 0x7f800000 ? bits_as<float>(0x7fc00000u) : 0.0f, 0};
  const __m256 inverse = _mm256_set1_ps(127.0f / largest);
  const auto rounded = [&](int i) { return _mm256_cvtps_epi32(_mm256_mul_ps(x[i], inverse)); };
  // Packing keeps to halves of the register: words 0, 4, 1, 5, 2, 6, 3, 7 come out.
  const __m256i packed =
      _mm256_packs_epi16(_mm256_packs_epi32(rounded(0), rounded(1)), _mm256_packs_epi32(rounded(2), rounded(3)));
  const __m256i codes = _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  const __m256i fours = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), codes), _mm256_set1_epi16(1));
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  BlockOfX made;
  store_vector(made.codes, codes);
  made.scale = largest / 127.0f;
  made.sum = _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
  return made;
}

template <uint32_t zero, bool mins>
MOTE_INLINE uint32_t extra_of(int32_t sum) {
  if constexpr (mins)
    return bits_as<uint32_t>(static_cast<float>(sum));
  else
    return static_cast<uint32_t>(-static_cast<int32_t>(zero) * sum);
}

MOTE_INLINE void store_word(uint8_t* to, const void* word) { __builtin_memcpy(to, word, 4); }

template <uint32_t zero, bool mins>
void make_few_rows(const InputJob& job) {
  const uint32_t blocks = job.columns / 32, rest = blocks % kLanes, full = blocks / kLanes;
  const size_t row_size = static_cast<size_t>(few_rows_bytes(1, job.columns));
  for (uint32_t row = job.first_row; row < job.end_row; ++row) {
    const float* x = job.x + size_t{row} * job.columns;
    for (uint32_t b = 0; b < blocks; ++b, x += 32) {
      const BlockOfX block = quantize_block(x);
      const uint32_t extra = extra_of<zero, mins>(block.sum);
      uint8_t* group = job.input + row * row_size + size_t{b / kLanes} * kGroupBytes;
      const uint32_t apart = b / kLanes < full ? kLanes : rest;
      for (uint32_t lane = b % kLanes; lane < kLanes; lane += apart) {
        for (uint32_t j = 0; j < 8; ++j) store_word(group + j * 64 + lane * 4, block.codes + j * 4);
        store_word(group + 512 + lane * 4, &block.scale);
        store_word(group + 576 + lane * 4, &extra);
      }
    }
  }
}

template <uint32_t zero, bool mins>
void make_panels(const InputJob& job) {
  const uint32_t blocks = job.columns / 32;
  for (uint32_t first = job.first_row; first < job.end_row; first += kTileXRows) {
    const uint32_t rows = job.rows - first < kTileXRows ? job.rows - first : kTileXRows;
    uint8_t* to = job.input + size_t{first} * blocks * kTileBlockBytes;
    visit_units(blocks, [&](uint32_t b) {
      for (uint32_t row = 0; row < rows; ++row) {
        const BlockOfX block = quantize_block(job.x + size_t{first + row} * job.columns + size_t{b} * 32);
        const uint32_t extra = extra_of<zero, mins>(block.sum);
        for (uint32_t j = 0; j < 8; ++j) store_word(to + (j * rows + row) * 4, block.codes + j * 4);
        store_word(to + (8 * rows + row) * 4, &block.scale);
        store_word(to + (9 * rows + row) * 4, &extra);
      }
      to += rows * kTileBlockBytes;
    });
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
