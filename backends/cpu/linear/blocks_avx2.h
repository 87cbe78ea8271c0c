// `linear` on blocks of 32 in 256-bit registers, in the two shapes that avx512.h describes; blocks_avx512.h is the same
// for 512. The sums of products are those of `Products`. Weights stay code + zero; what that adds, zero * sum(code_x),
// comes back as the integer at which each sum starts. A format with a min has zero 0 and keeps the sum as a float
// instead. Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/block_lanes_avx2.h"
#include "backends/cpu/linear/blocks_input_avx2.h"

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

constexpr uint32_t kRowsAtATime = 16;   // weight rows, in whose tails the lanes of one step divide themselves

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

// Weight rows [first, end) with x rows [x_first, x_first + count).
template <class F, uint32_t count>
void few_rows(const LinearJob& job, uint32_t first, uint32_t end, uint32_t x_first) {
  const uint32_t full = job.columns / 32 / kLanes;
  const size_t x_size = static_cast<size_t>(few_rows_bytes(1, job.columns));
  const uint8_t* const x = job.input + x_first * x_size;
  const Tails tails(job, F::kBytes);
  alignas(32) float partial[count][kRowsAtATime][kLanes];
  for (uint32_t row = first; row < end; row += kRowsAtATime) {
    const uint32_t rows = end - row < kRowsAtATime ? end - row : kRowsAtATime;
    const uint8_t* const weights = job.weights + row * job.weight_row_bytes;
    for (uint32_t r = 0; r < rows; ++r) {
      const uint8_t* at = weights + r * job.weight_row_bytes;
      __m256 acc[count][2];
#pragma GCC unroll 4
      for (uint32_t m = 0; m < count; ++m) acc[m][0] = acc[m][1] = _mm256_setzero_ps();
      for (uint32_t g = 0; g < full; ++g) {
        for (uint32_t line = 0; line < kLanes * F::kBytes; line += 64)
          _mm_prefetch(reinterpret_cast<const char*>(at + 4096 + line), _MM_HINT_T1);
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
        job.y[(x_first + m) * job.y_columns + row + r] = job.bias != nullptr ? sum + job.bias[row + r] : sum;
      }
  }
}

// Four rows of x at a time, over 16 weight rows that the next four find in the cache.
template <class F>
void up_to_few_rows(const LinearJob& job) {
  static constexpr decltype(&few_rows<F, 1>) kBatches[] = {few_rows<F, 1>, few_rows<F, 2>, few_rows<F, 3>,
                                                           few_rows<F, 4>};
  if (job.x_rows <= 4) return kBatches[job.x_rows - 1](job, job.first_row, job.end_row, 0);
  const uint32_t batches = (job.x_rows + 3) / 4;
  for (uint32_t row = job.first_row; row < job.end_row; row += kRowsAtATime) {
    const uint32_t end = job.end_row - row < kRowsAtATime ? job.end_row : row + kRowsAtATime;
    for (uint32_t batch = 0; batch < batches; ++batch) {   // of nearly equal size
      const uint32_t x_first = job.x_rows * batch / batches, x_end = job.x_rows * (batch + 1) / batches;
      kBatches[x_end - x_first - 1](job, row, end, x_first);
    }
  }
}

// ------------------------------------------------------------------------------------------ many rows of x

// A strip of 16 weight rows, blocks in visiting order: codes [8][16 rows][4], scales [16], in a format with mins
// mins [16].
template <class F>
constexpr uint32_t kStripBlockBytes = 8 * 64 + 64 + (F::kMins ? 64 : 0);

template <class F>
uint64_t strip_bytes(uint32_t columns) {
  return uint64_t{columns / 32} * kStripBlockBytes<F>;
}

// Rows first .. first + 15; those from `end` on repeat the last one.
template <class F>
void unpack_strip(const LinearJob& job, uint32_t first, uint32_t end, uint8_t* strip) {
  for (uint32_t half = 0; half < 2; ++half) {
    const uint8_t* rows[8];
    for (uint32_t r = 0; r < 8; ++r) {
      const uint32_t row = first + half * 8 + r;
      rows[r] = job.weights + (row < end ? row : end - 1) * job.weight_row_bytes;
    }
    uint8_t* to = strip + half * 32;
    visit_units(job.columns / 32, [&](uint32_t b) __attribute__((always_inline)) {
      const auto at = [&](int i) { return rows[i] + size_t{b} * F::kBytes; };
      __m256i codes[8];
      F::unpack(at, codes);
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) store_vector(to + j * 64, codes[j]);
      store_floats(to + 512, load_halves(at, 0));
      if constexpr (F::kMins) store_floats(to + 576, load_halves(at, 2));
      to += kStripBlockBytes<F>;
    });
  }
}

// The exact sums of a block of 16 weight rows and kRows rows of x.
template <class F, uint32_t kRows>
MOTE_INLINE void multiply_block(const uint8_t* strip, const uint8_t* x, __m256i dot[kRows][2]) {
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

// kRows rows of x, `x` their panel, with a strip. The sums of a block and one partial sum stay near.
template <class F, uint32_t kRows>
void multiply_panel(const LinearJob& job, const uint8_t* strip, const uint8_t* x, uint32_t x_first, uint32_t row,
                    Ahead ahead) {
  const uint32_t blocks = job.columns / 32;
  Waiting<kRows> waiting;
  for (uint32_t step = 0; step < kLanes; ++step) {
    __m256 acc[kRows][2];
#pragma GCC unroll 6
    for (uint32_t m = 0; m < kRows; ++m) acc[m][0] = acc[m][1] = _mm256_setzero_ps();
    for (uint32_t b = partial_of_step(step); b < blocks; b += kLanes) {
      __m256i dot[kRows][2];
      multiply_block<F, kRows>(strip, x, dot);
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
      x += kTileBlockBytes * kRows;
      strip += kStripBlockBytes<F>;
      ahead.step();
    }
    waiting.add(step, acc);
  }
  waiting.store(job, x_first, row);
}

template <class F>
void many_rows(const LinearJob& job) {
  static constexpr decltype(&multiply_panel<F, 1>) kPanels[] = {multiply_panel<F, 1>, multiply_panel<F, 2>,
                                                                multiply_panel<F, 3>, multiply_panel<F, 4>};
  const uint32_t blocks = job.columns / 32, panels = (job.x_rows + kTileXRows - 1) / kTileXRows;
  const size_t strip_size = kStripRows * job.weight_row_bytes;
  uint8_t* const strip = static_cast<uint8_t*>(job.scratch);
  for (uint32_t row = job.first_row; row < job.end_row; row += kStripRows) {
    unpack_strip<F>(job, row, job.end_row, strip);
    const bool more = job.end_row - row > kStripRows;
    for (uint32_t panel = 0; panel < panels; ++panel) {
      const uint32_t x_first = panel * kTileXRows;
      const uint32_t rows = job.x_rows - x_first < kTileXRows ? job.x_rows - x_first : kTileXRows;
      const Ahead ahead =
          more ? ahead_of(job.weights + (row + kStripRows) * job.weight_row_bytes, strip_size, panel, panels, blocks)
               : Ahead{};
      kPanels[rows - 1](job, strip, job.input + size_t{x_first} * blocks * kTileBlockBytes, x_first, row, ahead);
    }
  }
}

template <class F>
void linear_lanes(const LinearJob& job) {
  if (job.x_rows <= kFewRows)
    up_to_few_rows<F>(job);
  else
    many_rows<F>(job);
}

template <Format format>
constexpr LinearKernel kBlocksKernel = {linear_lanes<Lanes<format>>,
                                        &kBlocksForm<Lanes<format>::kZero, Lanes<format>::kMins>,
                                        strip_bytes<Lanes<format>>, kStripRows};

}   // namespace
}   // namespace mote
