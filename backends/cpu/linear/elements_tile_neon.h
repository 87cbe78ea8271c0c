// `linear` on single elements for many rows of x, on any 64-bit ARM: tiles of six weight rows by four rows of x. A
// register holds a quarter of an output's 16 partial sums, so that the 24 outputs of a tile stay in registers while
// that quarter of K passes by. Weights are widened once for all rows of x, and both sides lie as they are read:
//   weights   [groups of six rows][4 quarters][K / 16][6][4]        x   [panels of four rows][4 quarters][K / 16][4][4]
// The last panel has the rows that are left. K is filled up to whole 16 with weights of 0 and an x of -0: their product
// of -0 changes no sum. Internal linkage: see kernel_base.h.
#pragma once
#include <arm_neon.h>

#include "backends/cpu/kernel_base.h"
#include "backends/cpu/linear/linear.h"

namespace mote {
namespace {

constexpr uint32_t kFewRows = 4;   // rows of x that are read as they lie, by another kernel
constexpr uint32_t kPanelRows = 4;
constexpr uint32_t kGroupRows = 6;
constexpr uint32_t kStripRows = 12;   // weight rows that are widened at a time

// Elements 4 q .. 4 q + 3 of each 16. In this order a quarter meets its partner of the fold next.
constexpr uint32_t kQuarters[4] = {0, 2, 1, 3};

inline uint32_t units_of(uint32_t columns) { return columns / kLanes + (columns % kLanes != 0 ? 1 : 0); }

// ------------------------------------------------------------------------------------------ what is read

uint64_t panels_bytes(uint32_t rows, uint32_t columns) {
  return rows <= kFewRows ? 0 : uint64_t{rows} * units_of(columns) * kLanes * sizeof(float);
}

void make_panels(const InputJob& job) {
  if (job.rows <= kFewRows) return;
  const uint32_t units = units_of(job.columns);
  for (uint32_t first = job.first_row; first < job.end_row; first += kPanelRows) {
    const uint32_t count = job.rows - first < kPanelRows ? job.rows - first : kPanelRows;
    float* const panel = reinterpret_cast<float*>(job.input) + size_t{first} * units * kLanes;
    for (uint32_t u = 0; u < units; ++u)
      for (uint32_t m = 0; m < count; ++m) {
        const float* from = job.x + size_t{first + m} * job.columns + size_t{u} * kLanes;
        const uint32_t left = job.columns - u * kLanes;
        float rest[kLanes];
        if (left < kLanes) {
          for (uint32_t i = 0; i < kLanes; ++i) rest[i] = i < left ? from[i] : -0.0f;
          from = rest;
        }
        for (uint32_t q = 0; q < 4; ++q)
          vst1q_f32(panel + ((size_t{q} * units + u) * count + m) * 4, vld1q_f32(from + 4 * kQuarters[q]));
      }
  }
}

constexpr InputForm kPanelsForm = {make_panels, panels_bytes, kPanelRows};

uint64_t strip_bytes(uint32_t columns) { return uint64_t{units_of(columns)} * kLanes * kStripRows * sizeof(float); }

// Elements [0, count) of 16, zeros behind them.
template <class F>
void load_first(const uint8_t* at, uint32_t count, float32x4_t w[4]) {
  alignas(16) uint8_t bytes[kLanes * F::kBytes] = {};
  __builtin_memcpy(bytes, at, size_t{count} * F::kBytes);
  F::load(bytes, w);
}

// Rows row .. row + 5; those from end_row on repeat the last one.
template <class F>
void widen_group(const LinearJob& job, uint32_t row, float* group) {
  const uint32_t whole = job.columns / kLanes, rest = job.columns % kLanes;
  const size_t quarter = size_t{units_of(job.columns)} * kGroupRows * 4;
  const uint8_t* rows[kGroupRows];
  for (uint32_t r = 0; r < kGroupRows; ++r)
    rows[r] = job.weights + (row + r < job.end_row ? row + r : job.end_row - 1) * job.weight_row_bytes;
  float32x4_t w[4];
  const auto store = [&](uint32_t r) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (uint32_t q = 0; q < 4; ++q) vst1q_f32(group + q * quarter + r * 4, w[kQuarters[q]]);
  };
  for (uint32_t u = 0; u < whole; ++u, group += kGroupRows * 4)
#pragma GCC unroll 6
    for (uint32_t r = 0; r < kGroupRows; ++r) {
      F::load(rows[r] + size_t{u} * kLanes * F::kBytes, w);
      store(r);
    }
  for (uint32_t r = 0; rest != 0 && r < kGroupRows; ++r) {
    load_first<F>(rows[r] + size_t{whole} * kLanes * F::kBytes, rest, w);
    store(r);
  }
}

// ------------------------------------------------------------------------------------------ tiles

// The folds of four outputs, of which half of the additions are done: lane i that of p[i].
MOTE_INLINE float32x4_t fold_four(float32x4_t p0, float32x4_t p1, float32x4_t p2, float32x4_t p3) {
  const auto two = [](float32x4_t a, float32x4_t b) __attribute__((always_inline)) {   // p[0] + p[2], p[1] + p[3]
    const float64x2_t x = vreinterpretq_f64_f32(a), y = vreinterpretq_f64_f32(b);
    return vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(x, y)), vreinterpretq_f32_f64(vzip2q_f64(x, y)));
  };
  return vpaddq_f32(two(p0, p1), two(p2, p3));
}

// Weight rows row .. row + 5 with kXRows rows of x from x_first on.
template <uint32_t kXRows>
void multiply_tile(const LinearJob& job, const float* w, const float* x, uint32_t row, uint32_t x_first) {
  const uint32_t units = units_of(job.columns);
  float32x4_t waiting[3][kXRows][kGroupRows];   // for their partner in the fold
  for (uint32_t step = 0; step < 4; ++step) {
    float32x4_t sum[kXRows][kGroupRows];
#pragma GCC unroll 4
    for (uint32_t m = 0; m < kXRows; ++m)
#pragma GCC unroll 6
      for (uint32_t r = 0; r < kGroupRows; ++r) sum[m][r] = vdupq_n_f32(0);
    for (uint32_t u = 0; u < units; ++u) {
      float32x4_t xs[kXRows];
#pragma GCC unroll 4
      for (uint32_t m = 0; m < kXRows; ++m) xs[m] = vld1q_f32(x + 4 * m);
#pragma GCC unroll 6
      for (uint32_t r = 0; r < kGroupRows; ++r) {
        // The next weights when those before the last ones are done with: there are no registers for all six.
        for (uint32_t m = 0; (r == 2 || r == 4) && m < kXRows; ++m) __asm__("" : "+r"(w) : "w"(sum[m][r - 2]));
        const float32x4_t ws = vld1q_f32(w + 4 * r);
#pragma GCC unroll 4
        for (uint32_t m = 0; m < kXRows; ++m) sum[m][r] = vfmaq_f32(sum[m][r], ws, xs[m]);
      }
      w += 4 * kGroupRows;
      x += 4 * kXRows;
    }
    uint32_t level = 0;
    for (; (step >> level & 1) != 0; ++level)
#pragma GCC unroll 4
      for (uint32_t m = 0; m < kXRows; ++m)
#pragma GCC unroll 6
        for (uint32_t r = 0; r < kGroupRows; ++r) sum[m][r] = vaddq_f32(waiting[level][m][r], sum[m][r]);
#pragma GCC unroll 4
    for (uint32_t m = 0; m < kXRows; ++m)
#pragma GCC unroll 6
      for (uint32_t r = 0; r < kGroupRows; ++r) waiting[level][m][r] = sum[m][r];
  }
  const uint32_t live = job.end_row - row < kGroupRows ? job.end_row - row : kGroupRows;
  for (uint32_t m = 0; m < kXRows; ++m) {
    const float32x4_t* const p = waiting[2][m];
    float y[8];
    vst1q_f32(y, fold_four(p[0], p[1], p[2], p[3]));
    vst1q_f32(y + 4, fold_four(p[4], p[5], p[4], p[5]));
    float* const to = job.y + (x_first + m) * job.y_columns + row;
    for (uint32_t r = 0; r < live; ++r) to[r] = job.bias != nullptr ? y[r] + job.bias[row + r] : y[r];
  }
}

template <class F>
void many_rows(const LinearJob& job) {
  static constexpr decltype(&multiply_tile<1>) kTiles[] = {multiply_tile<1>, multiply_tile<2>, multiply_tile<3>,
                                                           multiply_tile<4>};
  const size_t row_floats = size_t{units_of(job.columns)} * kLanes;
  float* const groups = static_cast<float*>(job.scratch);
  for (uint32_t strip = job.first_row; strip < job.end_row; strip += kStripRows) {
    const uint32_t end = job.end_row - strip < kStripRows ? job.end_row : strip + kStripRows;
    for (uint32_t row = strip; row < end; row += kGroupRows)
      widen_group<F>(job, row, groups + (row - strip) * row_floats);
    for (uint32_t x = 0; x < job.x_rows; x += kPanelRows) {
      const float* const panel = reinterpret_cast<const float*>(job.input) + x * row_floats;
      const uint32_t count = job.x_rows - x < kPanelRows ? job.x_rows - x : kPanelRows;
      for (uint32_t row = strip; row < end; row += kGroupRows)
        kTiles[count - 1](job, groups + (row - strip) * row_floats, panel, row, x);
    }
  }
}

}   // namespace
}   // namespace mote
