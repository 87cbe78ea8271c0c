// Few rows of x by ARM's 8-bit dot product: each weight row is read once, straight through. Internal linkage: see
// kernel_base.h.
#pragma once
#include "backends/cpu/linear/block_codes_neon.h"
#include "backends/cpu/linear/blocks_input_neon.h"

namespace mote {
namespace {

// One unit of weights with `count` rows of x, x_size bytes apart: whole[m], and mins[m] of a super-block with mins, as
// four lanes that are still to be added up.
template <class F, uint32_t count>
MOTE_INLINE void multiply_unit(const uint8_t* block, const uint8_t* x, size_t x_size, int32x4_t whole[count]) {
#pragma GCC unroll 4
  for (uint32_t m = 0; m < count; ++m) whole[m] = vdupq_n_s32(0);
  int32x4_t factors[(F::kFactors + 3) / 4];
  if constexpr (F::kUnit != 32) F::factors(block, factors);
  times<F::kUnit / 32>([&](auto part) __attribute__((always_inline)) {
    constexpr int p = decltype(part)();
    int8x16_t codes[2];
    F::template part<p>(block, codes);
#pragma GCC unroll 4
    for (uint32_t m = 0; m < count; ++m) {
      const uint8_t* const at = x + m * x_size + p * 32;
      const int8x16_t low = load_codes(at), high = load_codes(at + 16);
      const int32x4_t zero = vdupq_n_s32(0);
      if constexpr (F::kFactors == 1) {
        whole[m] = vdotq_s32(vdotq_s32(zero, codes[0], low), codes[1], high);
      } else if constexpr (F::kFactors == 8) {
        const int32x4_t dot = vdotq_s32(vdotq_s32(zero, codes[0], low), codes[1], high);
        whole[m] = vmlaq_laneq_s32(whole[m], dot, factors[p / 4], p % 4);
      } else {
        whole[m] = vmlaq_laneq_s32(whole[m], vdotq_s32(zero, codes[0], low), factors[p / 2], p % 2 * 2);
        whole[m] = vmlaq_laneq_s32(whole[m], vdotq_s32(zero, codes[1], high), factors[p / 2], p % 2 * 2 + 1);
      }
    }
  });
}

MOTE_INLINE int32x4_t multiply_mins(int16x8_t mins, const uint8_t* sums) {
  const int16x8_t of_x = vreinterpretq_s16_u8(vld1q_u8(sums));
  return vmlal_high_s16(vmull_s16(vget_low_s16(mins), vget_low_s16(of_x)), mins, of_x);
}

// The quad of units at at[0] .. at[3] with `count` rows of x: a quarter of each row's partial sums grows, partial[m].
template <class F, uint32_t count>
MOTE_INLINE void add_quad(const uint8_t* const at[kQuad], const uint8_t* x, size_t x_size, float* partial) {
  using Quad = InputQuad<F::kUnit>;
  int32x4_t whole[kQuad][count];
  if constexpr (F::kUnit == 32) {
#pragma GCC unroll 4
    for (uint32_t i = 0; i < kQuad; ++i) multiply_unit<F, count>(at[i], x + i * F::kUnit, x_size, whole[i]);
  } else {
#pragma GCC unroll 1
    for (uint32_t i = 0; i < kQuad; ++i) multiply_unit<F, count>(at[i], x + i * F::kUnit, x_size, whole[i]);
  }
  const float32x4_t scale = load_halves(at, F::kScaleAt);
  float32x4_t min;
  if constexpr (F::kMins) min = load_halves(at, F::kScaleAt + 2);
#pragma GCC unroll 4
  for (uint32_t m = 0; m < count; ++m, x += x_size, partial += kLanes) {
    const float32x4_t scale_x = load_floats(x + Quad::kScales);
    const int32x4_t apart[kQuad] = {whole[0][m], whole[1][m], whole[2][m], whole[3][m]};
    const float32x4_t value = to_floats<F::kFraction>(add_across(apart));
    float32x4_t sum = vfmaq_f32(vld1q_f32(partial), vmulq_f32(scale, scale_x), value);
    if constexpr (F::kMins && F::kUnit == 32) {
      sum = vfmaq_f32(sum, vmulq_f32(min, scale_x), load_floats(x + Quad::kSums));
    } else if constexpr (F::kMins) {
      int32x4_t mins[kQuad];
#pragma GCC unroll 4
      for (uint32_t i = 0; i < kQuad; ++i) mins[i] = multiply_mins(F::mins(at[i]), x + Quad::kSums + i * 16);
      sum = vfmaq_f32(sum, vmulq_f32(min, scale_x), vnegq_f32(vcvtq_f32_s32(add_across(mins))));
    }
    vst1q_f32(partial, sum);
  }
}

// What stands where a row has no unit any more: with the zeros of x it adds +0, which changes no partial sum (none is
// ever -0).
alignas(16) constexpr uint8_t kNoBlock[256] = {};

// Weight rows [first, end) with x rows [x_first, x_first + count).
template <class F, uint32_t count>
void multiply_rows(const LinearJob& job, uint32_t first, uint32_t end, uint32_t x_first) {
  static_assert(F::kBytes <= sizeof kNoBlock);
  const uint32_t units = job.columns / F::kUnit;
  const size_t x_size = few_rows_bytes<F::kUnit>(1, job.columns);
  for (uint32_t row = first; row < end; ++row) {
    const uint8_t* block = job.weights + row * job.weight_row_bytes;
    const uint8_t* x = job.input + x_first * x_size;
    float partial[count][kLanes] = {};
    uint32_t u = 0;
    const auto next = [&](const uint8_t* const at[kQuad]) __attribute__((always_inline)) {
      add_quad<F, count>(at, x, x_size, &partial[0][u % kLanes]);
      u += kQuad;
      block += kQuad * F::kBytes;
      x += InputQuad<F::kUnit>::kBytes;
    };
    if constexpr (F::kUnit == 32)   // the loop below without its choice of addresses
      while (u + kQuad <= units) {
        const uint8_t* const at[kQuad] = {block, block + F::kBytes, block + 2 * F::kBytes, block + 3 * F::kBytes};
        next(at);
      }
    while (u < units) {
      const uint8_t* at[kQuad];
      for (uint32_t i = 0; i < kQuad; ++i) at[i] = u + i < units ? block + i * F::kBytes : kNoBlock;
      next(at);
    }
    for (uint32_t m = 0; m < count; ++m) {
      const float sum = fold16(partial[m]);
      job.y[(x_first + m) * job.y_columns + row] = job.bias != nullptr ? sum + job.bias[row] : sum;
    }
  }
}

// Four rows of x at a time, over 16 weight rows that the next four find in the cache.
template <class F>
void few_rows(const LinearJob& job) {
  static constexpr decltype(&multiply_rows<F, 1>) kBatches[] = {multiply_rows<F, 1>, multiply_rows<F, 2>,
                                                                multiply_rows<F, 3>, multiply_rows<F, 4>};
  if (job.x_rows <= 4) return kBatches[job.x_rows - 1](job, job.first_row, job.end_row, 0);
  const uint32_t half = job.x_rows / 2;
  for (uint32_t row = job.first_row; row < job.end_row; row += 16) {
    const uint32_t end = job.end_row - row < 16 ? job.end_row : row + 16;
    kBatches[half - 1](job, row, end, 0);
    kBatches[job.x_rows - half - 1](job, row, end, half);
  }
}

}   // namespace
}   // namespace mote
