// `linear` on blocks of 32 in 256-bit registers, in the two shapes that avx512.h describes; blocks_avx512.h is the same
// for 512. The sums of products are those of `Products`. Weights stay code + zero; what that adds, zero * sum(code_x),
// comes back as the integer at which each sum starts. A format with a min has zero 0 and keeps the sum as a float
// instead. Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/block_lanes_avx2.h"
#include "backends/cpu/linear/blocks_input_avx2.h"
#include "backends/cpu/linear/row_streams.h"
#include "backends/cpu/linear/tile_avx2.h"

namespace mote {
namespace {

// ------------------------------------------------------------------------------------------ few rows of x

// Eight of the 16 blocks of a group, unpacked; `x` is at their lanes in the group of a row of x.
template <class F>
struct Half {
  __m256i codes[8];
  __m256 scale, min;

  template <class At>
  MOTE_INLINE explicit Half(At at) {
    F::unpack(at, codes);
    scale = load_halves(at, 0);
    if constexpr (F::kMins) min = load_halves(at, 2);
  }
  MOTE_INLINE __m256 add_to(__m256 acc, const uint8_t* x) const {
    using Sum = Products<F::kLargest>;
    __m256i dot = F::kMins || F::kZero == 0 ? _mm256_setzero_si256() : load_vector(x + 576);
#pragma GCC unroll 8
    for (uint32_t first = 0; first < 8; first += Sum::kWords) {
      __m256i part = Sum::begin(dot);
#pragma GCC unroll 8
      for (uint32_t j = first; j < first + Sum::kWords; ++j) part = Sum::add(part, codes[j], load_vector(x + j * 64));
      dot = Sum::end(dot, part);
    }
    const __m256 scale_x = load_floats(x + 512);
    acc = _mm256_fmadd_ps(_mm256_mul_ps(scale, scale_x), _mm256_cvtepi32_ps(dot), acc);
    if constexpr (F::kMins) acc = _mm256_fmadd_ps(_mm256_mul_ps(min, scale_x), load_floats(x + 576), acc);
    return acc;
  }
};

// The tails of weight rows that share a step: lane by lane its block, and where its partial sum lies behind those of
// the step's first row.
struct Tails {
  uint32_t rest, sharing;
  size_t block_at[kLanes];
  uint32_t sum_at[kLanes];

  Tails(const LinearJob& job, uint32_t block_bytes) : rest(job.columns / 32 % kLanes), sharing(kRowsAtATime) {
    if (rest == 0) return;
    sharing = kLanes / rest;
    const uint32_t full = job.columns / 32 - rest;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      // A lane without a block looks at the first one.
      const uint32_t row = lane < sharing * rest ? lane / rest : 0, block = lane < sharing * rest ? lane % rest : 0;
      block_at[lane] = row * job.weight_row_bytes + size_t{full + block} * block_bytes;
      sum_at[lane] = row * kLanes + block;
    }
  }
};

// The tails of `rows` weight rows, the first at `weights`: their partial sums with row m of x are partial[m][row] and
// those that follow.
template <class F, uint32_t count>
MOTE_INLINE void add_tails(const Tails& tails, uint32_t rows, uint32_t row, const uint8_t* weights, const uint8_t* x,
                           size_t x_size, float (*partial)[kRowsAtATime][kLanes]) {
  const uint32_t live = rows * tails.rest;
  for (uint32_t first = 0; first < live; first += 8) {
    const uint32_t lanes = live - first < 8 ? live - first : 8;
    const Half<F> half([&](int i) {
      const uint32_t lane = static_cast<uint32_t>(i);
      return weights + tails.block_at[lane < lanes ? first + lane : 0];
    });
    for (uint32_t m = 0; m < count; ++m) {
      alignas(32) float acc[8] = {};
      float* const sums = partial[m][row];
      for (uint32_t lane = 0; lane < lanes; ++lane) acc[lane] = sums[tails.sum_at[first + lane]];
      _mm256_store_ps(acc, half.add_to(_mm256_load_ps(acc), x + m * x_size + first * 4));
      for (uint32_t lane = 0; lane < lanes; ++lane) sums[tails.sum_at[first + lane]] = acc[lane];
    }
  }
}

template <class F, uint32_t count>
void few_rows(const LinearJob& job) {
  const uint32_t full = job.columns / 32 / kLanes;
  const size_t x_size = static_cast<size_t>(few_rows_bytes(1, job.columns));
  const uint8_t* const x = job.input;
  const Tails tails(job, F::kBytes);
  alignas(32) float partial[count][kRowsAtATime][kLanes];
  for (uint32_t row = job.first_row; row < job.end_row; row += kRowsAtATime) {
    const uint32_t rows = job.end_row - row < kRowsAtATime ? job.end_row - row : kRowsAtATime;
    const uint8_t* const weights = job.weights + row * job.weight_row_bytes;
    for (uint32_t r = 0; r < rows; ++r) {
      const uint8_t* at = weights + r * job.weight_row_bytes;
      __m256 acc[count][2];
#pragma GCC unroll 4
      for (uint32_t m = 0; m < count; ++m) acc[m][0] = acc[m][1] = _mm256_setzero_ps();
      for (uint32_t g = 0; g < full; ++g) {
        for (uint32_t line = 0; line < kLanes * F::kBytes; line += 64)
          _mm_prefetch(reinterpret_cast<const char*>(at + kFetchAhead + line), _MM_HINT_T1);
#pragma GCC unroll 2
        for (uint32_t h = 0; h < 2; ++h, at += 8 * F::kBytes) {
          const Half<F> half([at](int i) { return at + static_cast<uint32_t>(i) * F::kBytes; });
#pragma GCC unroll 4
          for (uint32_t m = 0; m < count; ++m)
            acc[m][h] = half.add_to(acc[m][h], x + m * x_size + size_t{g} * kGroupBytes + h * 32);
        }
      }
#pragma GCC unroll 4
      for (uint32_t m = 0; m < count; ++m) {
        _mm256_store_ps(partial[m][r], acc[m][0]);
        _mm256_store_ps(partial[m][r] + 8, acc[m][1]);
      }
    }
    for (uint32_t r = 0; tails.rest != 0 && r < rows; r += tails.sharing)
      add_tails<F, count>(tails, rows - r < tails.sharing ? rows - r : tails.sharing, r,
                          weights + r * job.weight_row_bytes, x + size_t{full} * kGroupBytes, x_size, partial);
    for (uint32_t m = 0; m < count; ++m)
      for (uint32_t r = 0; r < rows; ++r) {
        const float sum = fold_lanes(_mm256_load_ps(partial[m][r]), _mm256_load_ps(partial[m][r] + 8));
        job.y[m * job.y_columns + row + r] = job.bias != nullptr ? sum + job.bias[row + r] : sum;
      }
  }
}

// ------------------------------------------------------------------------------------------ many rows of x

// A block of a strip: codes [8][16 rows][4], scales [16], in a format with mins mins [16].
template <class F>
struct BlockTile {
  static constexpr uint32_t kUnit = 32, kBytes = F::kBytes, kXBytes = kTileBlockBytes, kFew = kFewRows;
  static constexpr uint32_t kStripBytes = 8 * 64 + 64 + (F::kMins ? 64 : 0);

  template <uint32_t count>
  static void few(const LinearJob& job) {
    few_rows<F, count>(job);
  }

  template <class At>
  MOTE_INLINE static void unpack(At at, uint8_t* to) {
    __m256i codes[8];
    F::unpack(at, codes);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) store_vector(to + j * 64, codes[j]);
    store_floats(to + 512, load_halves(at, 0));
    if constexpr (F::kMins) store_floats(to + 576, load_halves(at, 2));
  }

  // The exact sums of a block of 16 weight rows and kRows rows of x.
  template <uint32_t kRows>
  MOTE_INLINE static void multiply(const uint8_t* strip, const uint8_t* x, __m256i dot[kRows][2]) {
    using Sum = Products<F::kLargest>;
#pragma GCC unroll 6
    for (uint32_t m = 0; m < kRows; ++m)
      dot[m][0] = dot[m][1] =
          F::kMins || F::kZero == 0 ? _mm256_setzero_si256() : broadcast_word(x + (36 * kRows) + m * 4);
#pragma GCC unroll 8
    for (uint32_t first = 0; first < 8; first += Sum::kWords) {
      __m256i part[kRows][2];
#pragma GCC unroll 6
      for (uint32_t m = 0; m < kRows; ++m) part[m][0] = Sum::begin(dot[m][0]), part[m][1] = Sum::begin(dot[m][1]);
#pragma GCC unroll 8
      for (uint32_t j = first; j < first + Sum::kWords; ++j) {
        const __m256i codes0 = load_vector(strip + j * 64), codes1 = load_vector(strip + j * 64 + 32);
#pragma GCC unroll 6
        for (uint32_t m = 0; m < kRows; ++m) {
          const __m256i word = broadcast_word(x + (j * kRows + m) * 4);
          part[m][0] = Sum::add(part[m][0], codes0, word);
          part[m][1] = Sum::add(part[m][1], codes1, word);
        }
      }
#pragma GCC unroll 6
      for (uint32_t m = 0; m < kRows; ++m)
        dot[m][0] = Sum::end(dot[m][0], part[m][0]), dot[m][1] = Sum::end(dot[m][1], part[m][1]);
    }
  }

  // What they add to the partial sums.
  template <uint32_t kRows>
  MOTE_INLINE static void add(const uint8_t* strip, const uint8_t* x, __m256 acc[kRows][2]) {
    __m256i dot[kRows][2];
    multiply<kRows>(strip, x, dot);
#pragma GCC unroll 2
    for (uint32_t v = 0; v < 2; ++v)
#pragma GCC unroll 6
      for (uint32_t m = 0; m < kRows; ++m) {
        const __m256 scale_x = broadcast_float(x + 32 * kRows + m * 4);
        const __m256 both = _mm256_mul_ps(load_floats(strip + 512 + v * 32), scale_x);
        acc[m][v] = _mm256_fmadd_ps(both, _mm256_cvtepi32_ps(dot[m][v]), acc[m][v]);
        if constexpr (F::kMins) {
          const __m256 min = _mm256_mul_ps(load_floats(strip + 576 + v * 32), scale_x);
          acc[m][v] = _mm256_fmadd_ps(min, broadcast_float(x + 36 * kRows + m * 4), acc[m][v]);
        }
      }
  }
};

template <Format format>
constexpr LinearKernel kBlocksKernel =
    kTileKernel<BlockTile<Lanes<format>>, kBlocksForm<Lanes<format>::kZero, Lanes<format>::kMins>>;

}   // namespace
}   // namespace mote
