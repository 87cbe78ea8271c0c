// `linear` on super-blocks of 256 in 256-bit registers. Inside a super-block everything is an exact integer, so any
// split over lanes gives the bits of linear.h:
//   few rows of x    values as they lie: the 32 of a chunk side by side, their sums added up at the end
//   many rows of x   lane = weight row, as for blocks of 32
// Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/row_streams.h"
#include "backends/cpu/linear/super_block_lanes_avx2.h"
#include "backends/cpu/linear/tile_avx2.h"

namespace mote {
namespace {

// ------------------------------------------------------------------------------------------ the form of x

// A panel pays from fewer rows on than with blocks of 32: there is more to unpack.
constexpr uint32_t kFewSuperRows = 2;

// Up to kFewSuperRows rows: row by row, for each super-block codes [256], int16 sums of 16 codes each [16], scale,
// padding. More rows: panels of kTileXRows (the last one has what is left), in a panel super-blocks in visiting order:
// codes [64][rows][4], sums [8][rows][2], scales [rows]. The same for all formats.
constexpr uint32_t kFewSums = 256, kFewScale = 288, kFewSuperBytes = 320, kTileSuperBytes = 256 + 32 + 4;

inline uint64_t super_form_bytes(uint32_t rows, uint32_t columns) {
  const uint64_t few = uint64_t{rows < kFewSuperRows ? rows : kFewSuperRows} * (columns / 256) * kFewSuperBytes;
  const uint64_t tiles = (uint64_t{rows} * (columns / 256) * kTileSuperBytes + 63) / 64 * 64;
  return rows <= kFewSuperRows || few > tiles ? few : tiles;
}

struct SuperBlockOfX {
  alignas(32) uint8_t codes[256];
  int16_t sums[16];
  float scale;
};
inline void quantize_super_block(const float* x, SuperBlockOfX& to) {
  __m256 inverse;
  if (!scales_of_block(largest_magnitude<8>(x), &to.scale, &inverse)) {
    __builtin_memset(to.codes, 0, sizeof to.codes);
    __builtin_memset(to.sums, 0, sizeof to.sums);
    return;
  }
  for (uint32_t c = 0; c < 8; ++c) {
    const __m256i codes = codes_of(x + 32 * c, inverse);
    store_vector(to.codes + 32 * c, codes);
    alignas(32) int32_t fours[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(fours), sum_fours(codes));
    to.sums[2 * c] = static_cast<int16_t>(fours[0] + fours[1] + fours[2] + fours[3]);
    to.sums[2 * c + 1] = static_cast<int16_t>(fours[4] + fours[5] + fours[6] + fours[7]);
  }
}

inline void make_super_blocks(const InputJob& job) {
  const uint32_t blocks = job.columns / 256;
  SuperBlockOfX made;
  if (job.rows <= kFewSuperRows) {
    uint8_t* to = job.input + size_t{job.first_row} * blocks * kFewSuperBytes;
    const float* const end = job.x + size_t{job.end_row} * job.columns;
    for (const float* x = job.x + size_t{job.first_row} * job.columns; x < end; x += 256, to += kFewSuperBytes) {
      quantize_super_block(x, made);
      __builtin_memcpy(to, made.codes, 256);
      __builtin_memcpy(to + kFewSums, made.sums, 32);
      __builtin_memcpy(to + kFewScale, &made.scale, 4);
    }
    return;
  }
  for (uint32_t first = job.first_row; first < job.end_row; first += kTileXRows) {
    const uint32_t rows = job.rows - first < kTileXRows ? job.rows - first : kTileXRows;
    uint8_t* to = job.input + size_t{first} * blocks * kTileSuperBytes;
    visit_units(blocks, [&](uint32_t b) {
      for (uint32_t row = 0; row < rows; ++row) {
        quantize_super_block(job.x + size_t{first + row} * job.columns + size_t{b} * 256, made);
        for (uint32_t w = 0; w < 64; ++w) __builtin_memcpy(to + (w * rows + row) * 4, made.codes + 4 * w, 4);
        for (uint32_t k = 0; k < 8; ++k) __builtin_memcpy(to + ((64 + k) * rows + row) * 4, made.sums + 2 * k, 4);
        __builtin_memcpy(to + (72 * rows + row) * 4, &made.scale, 4);
      }
      to += kTileSuperBytes * rows;
    });
  }
}

constexpr InputForm kSuperForm = {make_super_blocks, super_form_bytes, kTileXRows};

// ------------------------------------------------------------------------------------------ few rows of x

// One super-block with `count` rows of x; partial[m] is the partial sum that it belongs to.
template <class F, uint32_t count>
MOTE_INLINE void add_super_block(const uint8_t* block, const uint8_t* x, size_t x_size, float* const partial[count]) {
  __m256i whole[count];
#pragma GCC unroll 4
  for (uint32_t m = 0; m < count; ++m) whole[m] = _mm256_setzero_si256();
  const __m256i scales = F::scales(block);
#pragma GCC unroll 8
  for (uint32_t c = 0; c < 8; ++c) {
    const __m256i codes = F::chunk(block, c);
    const __m256i scale = _mm256_shuffle_epi8(scales, _mm256_set1_epi16(static_cast<short>(0x0100 + 0x0202 * c)));
#pragma GCC unroll 4
    for (uint32_t m = 0; m < count; ++m)   // a pair of products fits into 16 bits: 2 * 63 * 127
      whole[m] = keep_order(_mm256_add_epi32(
          whole[m], _mm256_madd_epi16(_mm256_maddubs_epi16(codes, load_vector(x + m * x_size + 32 * c)), scale)));
  }
  const __m256i per_16 = F::per_16(block);
  const float d = _cvtsh_ss(F::scale16(block)), dmin = _cvtsh_ss(F::min16(block));
#pragma GCC unroll 4
  for (uint32_t m = 0; m < count; ++m) {
    const uint8_t* const x_m = x + m * x_size;
    const float scale_x = load_at<float>(x_m + kFewScale);
    const __m256i others = _mm256_madd_epi16(per_16, load_vector(x_m + kFewSums));
    if constexpr (F::kMins) {
      const __m256i two = _mm256_hadd_epi32(whole[m], others);
      const __m256i one = _mm256_hadd_epi32(two, two);
      const __m128i sums = _mm_add_epi32(_mm256_castsi256_si128(one), _mm256_extracti128_si256(one, 1));
      const float sum = fma_f32(d * scale_x, static_cast<float>(_mm_cvtsi128_si32(sums)), *partial[m]);
      *partial[m] = fma_f32(dmin * scale_x, -static_cast<float>(_mm_extract_epi32(sums, 1)), sum);
    } else {
      const __m256i all =
          _mm256_sub_epi32(whole[m], _mm256_mullo_epi32(others, _mm256_set1_epi32(static_cast<int32_t>(F::kZero))));
      *partial[m] = fma_f32(d * scale_x, static_cast<float>(add_lanes(all)), *partial[m]);
    }
  }
}

template <class F, uint32_t count>
void few_super_rows(const LinearJob& job) {
  const uint32_t blocks = job.columns / 256;
  const size_t x_size = size_t{blocks} * kFewSuperBytes;
  const uint8_t* const x = job.input;
  for (uint32_t row = job.first_row; row < job.end_row; ++row) {
    const uint8_t* at = job.weights + row * job.weight_row_bytes;
    alignas(32) float partial[count][kLanes] = {};
    for (uint32_t b = 0; b < blocks; ++b, at += F::kBytes) {
      for (uint32_t line = 0; line < F::kBytes; line += 64)
        _mm_prefetch(reinterpret_cast<const char*>(at + kFetchAhead + line), _MM_HINT_T1);
      float* sums[count];
#pragma GCC unroll 4
      for (uint32_t m = 0; m < count; ++m) sums[m] = &partial[m][b % kLanes];
      add_super_block<F, count>(at, x + size_t{b} * kFewSuperBytes, x_size, sums);
    }
    for (uint32_t m = 0; m < count; ++m) {
      const float sum = fold_lanes(_mm256_load_ps(partial[m]), _mm256_load_ps(partial[m] + 8));
      job.y[m * job.y_columns + row] = job.bias != nullptr ? sum + job.bias[row] : sum;
    }
  }
}

// ------------------------------------------------------------------------------------------ many rows of x

template <class F>
struct SuperTile {
  using Place = StripBlock<F::kSubs>;
  static constexpr uint32_t kUnit = 256, kBytes = F::kBytes, kStripBytes = Place::kBytes, kXBytes = kTileSuperBytes;
  static constexpr uint32_t kFew = kFewSuperRows;

  template <uint32_t count>
  static void few(const LinearJob& job) {
    few_super_rows<F, count>(job);
  }

  template <class At>
  MOTE_INLINE static void unpack(At at, uint8_t* to) {
    F::unpack(at, to);
  }

  // The exact sums of a super-block of 16 weight rows and kRows rows of x.
  template <uint32_t kRows>
  MOTE_INLINE static void multiply(const uint8_t* strip, const uint8_t* x, __m256i whole[kRows][2]) {
    using Sum = Products<F::kLargest>;
    constexpr uint32_t kSubWords = 64 / F::kSubs, kWords = Sum::kWords < kSubWords ? Sum::kWords : kSubWords;
#pragma GCC unroll 6
    for (uint32_t m = 0; m < kRows; ++m) whole[m][0] = whole[m][1] = _mm256_setzero_si256();
    for (uint32_t first = 0; first < 64; first += kWords) {
      __m256i part[kRows][2];
#pragma GCC unroll 6
      for (uint32_t m = 0; m < kRows; ++m) part[m][0] = part[m][1] = _mm256_setzero_si256();
#pragma GCC unroll 8
      for (uint32_t j = first; j < first + kWords; ++j) {
        const __m256i codes0 = load_vector(strip + j * 64), codes1 = load_vector(strip + j * 64 + 32);
#pragma GCC unroll 6
        for (uint32_t m = 0; m < kRows; ++m) {
          const __m256i word = broadcast_word(x + (j * kRows + m) * 4);
          part[m][0] = Sum::add(part[m][0], codes0, word);
          part[m][1] = Sum::add(part[m][1], codes1, word);
        }
      }
      const uint8_t* const scales = strip + Place::kScales + first / kSubWords * 64;
#pragma GCC unroll 6
      for (uint32_t m = 0; m < kRows; ++m)
#pragma GCC unroll 2
        for (uint32_t v = 0; v < 2; ++v) whole[m][v] = Sum::end(whole[m][v], part[m][v], load_vector(scales + v * 32));
    }
  }

  // Their terms added to the partial sums.
  template <uint32_t kRows>
  MOTE_INLINE static void add(const uint8_t* strip, const uint8_t* x, __m256 acc[kRows][2]) {
    __m256i whole[kRows][2];
    multiply<kRows>(strip, x, whole);
#pragma GCC unroll 6
    for (uint32_t m = 0; m < kRows; ++m)
#pragma GCC unroll 2
      for (uint32_t v = 0; v < 2; ++v) {
        __m256i others = _mm256_setzero_si256();
#pragma GCC unroll 8
        for (uint32_t k = 0; k < 8; ++k)
          others = _mm256_add_epi32(others, _mm256_madd_epi16(load_vector(strip + Place::kPairs + k * 64 + v * 32),
                                                              broadcast_word(x + ((64 + k) * kRows + m) * 4)));
        const __m256 scale_x = broadcast_float(x + (72 * kRows + m) * 4);
        const __m256 scale = _mm256_mul_ps(load_floats(strip + Place::kD + v * 32), scale_x);
        if constexpr (F::kMins) {
          acc[m][v] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(whole[m][v]), acc[m][v]);
          const __m256 min = _mm256_mul_ps(load_floats(strip + Place::kMin + v * 32), scale_x);
          acc[m][v] = _mm256_fnmadd_ps(min, _mm256_cvtepi32_ps(others), acc[m][v]);
        } else {
          const __m256i zeros = _mm256_mullo_epi32(others, _mm256_set1_epi32(static_cast<int32_t>(F::kZero)));
          acc[m][v] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(_mm256_sub_epi32(whole[m][v], zeros)), acc[m][v]);
        }
      }
  }
};

template <Format format>
constexpr LinearKernel kSuperKernel = kTileKernel<SuperTile<SuperLanes<format>>, kSuperForm>;

}   // namespace
}   // namespace mote
