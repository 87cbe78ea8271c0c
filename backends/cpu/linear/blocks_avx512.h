// `linear` on blocks of 32 by AVX-512 and its 8-bit dot product, in the two shapes that avx512.h describes. The dot
// product takes unsigned weights and signed x, so weights stay unsigned, code + zero; what that adds,
// zero * sum(code_x), comes back as the integer at which each dot product starts. A format with a min has zero 0 and
// keeps the sum as a float instead. Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/blocks_few_rows_avx512.h"

namespace mote {
namespace {

// A strip of 32 weight rows, blocks in visiting order: codes [8][32 rows][4], scales [32], in a format with mins
// mins [32].
template <class F>
constexpr uint32_t kStripBlockBytes = 8 * 128 + 128 + (F::kMins ? 128 : 0);

template <class F>
uint64_t strip_bytes(uint32_t columns) {
  return uint64_t{columns / 32} * kStripBlockBytes<F>;
}

// Where a panel of x finds its weights, block by block in visiting order: in a strip, which several panels read,
template <class F>
struct UnpackedStrip {
  static constexpr uint32_t kVectors = 2;   // of 16 weight rows
  struct Block {
    const uint8_t* at;
    MOTE_INLINE __m512i codes(uint32_t j, uint32_t v) const { return _mm512_load_si512(at + j * 128 + v * 64); }
    MOTE_INLINE __m512 scale(uint32_t v) const { return _mm512_load_ps(at + 1024 + v * 64); }
    MOTE_INLINE __m512 min(uint32_t v) const { return _mm512_load_ps(at + 1152 + v * 64); }
  };
  const uint8_t* at;
  MOTE_INLINE Block block(uint32_t /*b*/) {
    const Block now = {at};
    at += kStripBlockBytes<F>;
    return now;
  }
};
// or in the rows themselves, unpacked into registers for the only panel.
template <class F>
struct RowsInPlace {
  static constexpr uint32_t kVectors = 1;
  struct Block : Group<F> {
    MOTE_INLINE __m512i codes(uint32_t j, uint32_t) const { return Group<F>::codes[j]; }
    MOTE_INLINE __m512 scale(uint32_t) const { return Group<F>::scale; }
    MOTE_INLINE __m512 min(uint32_t) const { return Group<F>::min; }
  };
  const uint8_t* const* rows;   // 16, in memory: in registers they would leave none
  MOTE_INLINE Block block(uint32_t b) const {
    Block block;
    block.unpack([&](int i) { return rows[i] + size_t{b} * F::kBytes; });
    shift_high<F::kHighShift>(block.Group<F>::codes);
    return block;
  }
};

template <class F>
void unpack_strip(const LinearJob& job, uint32_t first, uint8_t* strip) {
  for (uint32_t half = 0; half < 2; ++half) {
    const WeightRows<16> own(job, first + half * 16);
    const RowsInPlace<F> rows = {own.at};
    uint8_t* to = strip + half * 64;
    visit_units(job.columns / 32, [&](uint32_t b) __attribute__((always_inline)) {
      const auto block = rows.block(b);
#pragma GCC unroll 8
      for (uint32_t j = 0; j < 8; ++j) _mm512_store_si512(to + j * 128, block.codes(j, 0));
      _mm512_store_ps(to + 1024, block.scale(0));
      if constexpr (F::kMins) _mm512_store_ps(to + 1152, block.min(0));
      to += kStripBlockBytes<F>;
    });
  }
}

// kRows rows of x, `x` their panel, with weight rows `row` and those behind it. The dot products of a block and one
// partial sum stay in registers.
template <class F, class Weights, uint32_t kRows>
void multiply_panel(const LinearJob& job, Weights weights, const uint8_t* x, uint32_t x_first, uint32_t row,
                    Ahead ahead) {
  constexpr uint32_t kVectors = Weights::kVectors;
  const uint32_t blocks = job.columns / 32;
  __m512 waiting[5][kRows][kVectors];   // for their partner in the fold
  for (uint32_t step = 0; step < kLanes; ++step) {
    __m512 acc[kRows][kVectors];
#pragma GCC unroll 6
    for (uint32_t m = 0; m < kRows; ++m)
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kVectors; ++v) acc[m][v] = _mm512_setzero_ps();
    for (uint32_t b = partial_of_step(step); b < blocks; b += kLanes) {
      const auto block = weights.block(b);
      const uint8_t* const extras = x + 36 * kRows;
      __m512i dot[kRows][kVectors];
#pragma GCC unroll 6
      for (uint32_t m = 0; m < kRows; ++m)
#pragma GCC unroll 2
        for (uint32_t v = 0; v < kVectors; ++v)
          dot[m][v] = F::kMins ? _mm512_setzero_si512() : broadcast_word(extras + m * 4);
#pragma GCC unroll 8
      for (uint32_t j = 0; j < 8; ++j) {
        __m512i codes[kVectors];
#pragma GCC unroll 2
        for (uint32_t v = 0; v < kVectors; ++v) codes[v] = block.codes(j, v);
#pragma GCC unroll 6
        for (uint32_t m = 0; m < kRows; ++m) {
          const __m512i word = broadcast_word(x + (j * kRows + m) * 4);
#pragma GCC unroll 2
          for (uint32_t v = 0; v < kVectors; ++v) dot[m][v] = _mm512_dpbusd_epi32(dot[m][v], codes[v], word);
        }
      }
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kVectors; ++v) {
        const __m512 scale = block.scale(v);
#pragma GCC unroll 6
        for (uint32_t m = 0; m < kRows; ++m) {
          const __m512 both = _mm512_mul_ps(scale, broadcast_float(x + 32 * kRows + m * 4));
          acc[m][v] = _mm512_fmadd_ps(both, _mm512_cvtepi32_ps(dot[m][v]), acc[m][v]);
        }
        if constexpr (F::kMins) {
          const __m512 min = block.min(v);
#pragma GCC unroll 6
          for (uint32_t m = 0; m < kRows; ++m) {
            const __m512 both = _mm512_mul_ps(min, broadcast_float(x + 32 * kRows + m * 4));
            acc[m][v] = _mm512_fmadd_ps(both, broadcast_float(extras + m * 4), acc[m][v]);
          }
        }
      }
      x += kTileBlockBytes * kRows;
      ahead.step();
    }
    uint32_t level = 0;
    for (; (step >> level & 1) != 0; ++level)
#pragma GCC unroll 6
      for (uint32_t m = 0; m < kRows; ++m)
#pragma GCC unroll 2
        for (uint32_t v = 0; v < kVectors; ++v) acc[m][v] = _mm512_add_ps(waiting[level][m][v], acc[m][v]);
#pragma GCC unroll 6
    for (uint32_t m = 0; m < kRows; ++m)
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kVectors; ++v) waiting[level][m][v] = acc[m][v];
  }
  const uint32_t live = job.end_row - row >= kStripRows ? 0xffffffffu : (1u << (job.end_row - row)) - 1;
#pragma GCC unroll 2
  for (uint32_t v = 0; v < kVectors; ++v) {
    const __mmask16 mask = static_cast<__mmask16>(live >> (16 * v));
    const uint32_t at = row + 16 * v;
    for (uint32_t m = 0; m < kRows && mask != 0; ++m) {
      __m512 sum = waiting[4][m][v];
      if (job.bias != nullptr) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, job.bias + at));
      _mm512_mask_storeu_ps(job.y + (x_first + m) * job.y_columns + at, mask, sum);
    }
  }
}

// The fetch of the weight rows behind row .. row + together - 1, while `panel` of `panels` is multiplied with these.
MOTE_INLINE Ahead rows_ahead(const LinearJob& job, uint32_t row, uint32_t together, uint32_t panel, uint32_t panels) {
  if (job.end_row - row <= together) return {};
  const uint8_t* const next = job.weights + (row + together) * job.weight_row_bytes;
  return ahead_of(next, together * job.weight_row_bytes, panel, panels, job.columns / 32);
}

// One panel of x.
template <class F, uint32_t kRows>
void one_panel(const LinearJob& job) {
  for (uint32_t row = job.first_row; row < job.end_row; row += 16) {
    const WeightRows<16> rows(job, row);
    multiply_panel<F, RowsInPlace<F>, kRows>(job, {rows.at}, job.input, 0, row, rows_ahead(job, row, 16, 0, 1));
  }
}

template <class F>
void many_panels(const LinearJob& job) {
  using Strip = UnpackedStrip<F>;
  static constexpr decltype(&multiply_panel<F, Strip, 1>) kPanels[] = {
      multiply_panel<F, Strip, 1>, multiply_panel<F, Strip, 2>, multiply_panel<F, Strip, 3>,
      multiply_panel<F, Strip, 4>, multiply_panel<F, Strip, 5>, multiply_panel<F, Strip, 6>};
  const uint32_t blocks = job.columns / 32, panels = (job.x_rows + kTileXRows - 1) / kTileXRows;
  uint8_t* const strip = static_cast<uint8_t*>(job.scratch);
  for (uint32_t row = job.first_row; row < job.end_row; row += kStripRows) {
    unpack_strip<F>(job, row, strip);
    for (uint32_t panel = 0; panel < panels; ++panel) {
      const uint32_t x_first = panel * kTileXRows;
      const uint32_t rows = job.x_rows - x_first < kTileXRows ? job.x_rows - x_first : kTileXRows;
      kPanels[rows - 1](job, {strip}, job.input + size_t{x_first} * blocks * kTileBlockBytes, x_first, row,
                        rows_ahead(job, row, kStripRows, panel, panels));
    }
  }
}

template <class F>
void linear_lanes(const LinearJob& job) {
  static constexpr decltype(&one_panel<F, 3>) kFew[kTileXRows] = {multiply_few_rows<F, 1>, multiply_few_rows<F, 2>,
                                                                  one_panel<F, 3>,         one_panel<F, 4>,
                                                                  one_panel<F, 5>,         one_panel<F, 6>};
  static_assert(kFewRows == 2);
  if (job.x_rows <= kTileXRows)
    kFew[job.x_rows - 1](job);
  else
    many_panels<F>(job);
}

template <Format format>
constexpr LinearKernel kBlocksKernel = {linear_lanes<Lanes<format>>,
                                        &kBlocksForm<Lanes<format>::kZero, Lanes<format>::kMins>,
                                        strip_bytes<Lanes<format>>, kStripRows};

}   // namespace
}   // namespace mote
