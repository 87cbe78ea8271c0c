// `linear` on single elements (F32, F16, BF16) in 256-bit registers: lane = element mod 16 = partial sum, so that two
// accumulators are the 16 partial sums of one output. Some weight rows and up to three rows of x are multiplied at a
// time, read as they lie: an output is one chain of additions, and only several at once keep the multipliers busy.
// Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/avx2.h"
#include "backends/cpu/linear/linear.h"

namespace mote {
namespace {

// A format: kBytes of an element; load(at) gives eight, one(at) one.
struct ElementsF32 {
  static constexpr uint32_t kBytes = 4;
  MOTE_INLINE static __m256 load(const uint8_t* at) { return _mm256_loadu_ps(reinterpret_cast<const float*>(at)); }
  static float one(const uint8_t* at) { return load_at<float>(at); }
};
struct ElementsF16 {
  static constexpr uint32_t kBytes = 2;
  MOTE_INLINE static __m256 load(const uint8_t* at) { return _mm256_cvtph_ps(load_16(at)); }
  static float one(const uint8_t* at) { return _cvtsh_ss(load_at<uint16_t>(at)); }
};
struct ElementsBf16 {
  static constexpr uint32_t kBytes = 2;
  MOTE_INLINE static __m256 load(const uint8_t* at) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_16(at)), 16));
  }
  static float one(const uint8_t* at) { return bits_as<float>(static_cast<uint32_t>(load_at<uint16_t>(at)) << 16); }
};

constexpr uint32_t kElementXRows = 3;   // rows of x at a time
// Weight rows at a time: with fewer accumulators than eight additions wait for each other, more than twelve do not fit.
constexpr uint32_t element_rows(uint32_t x_rows) { return x_rows == 1 ? 4 : 2; }

// Not an operand in memory: of those qemu 7.2 reads 16 bytes for a scalar fma, which may be beyond the last page.
MOTE_INLINE float in_register(float value) {
  __asm__("" : "+x"(value));
  return value;
}

// Weight rows [row, row + element_rows), as far as they are below `end`, with rows [x_first, x_first + kXRows) of x.
template <class F, uint32_t kXRows>
void multiply_elements_tile(const LinearJob& job, uint32_t row, uint32_t end, uint32_t x_first) {
  constexpr uint32_t kRows = element_rows(kXRows);
  const uint32_t columns = job.columns, whole = columns / kLanes * kLanes, live = end - row < kRows ? end - row : kRows;
  const uint8_t* w[kRows];   // beyond the last row that one again, for nothing
  for (uint32_t r = 0; r < kRows; ++r) w[r] = job.weights + (row + (r < live ? r : live - 1)) * job.weight_row_bytes;
  const float* const x = job.x + size_t{x_first} * columns;
  __m256 sum[kXRows][kRows][2];
#pragma GCC unroll 4
  for (uint32_t m = 0; m < kXRows; ++m)
#pragma GCC unroll 4
    for (uint32_t r = 0; r < kRows; ++r) sum[m][r][0] = sum[m][r][1] = _mm256_setzero_ps();
  for (uint32_t u = 0; u < whole; u += kLanes)
#pragma GCC unroll 2
    for (uint32_t h = 0; h < 2; ++h) {
      __m256 values[kRows];
#pragma GCC unroll 4
      for (uint32_t r = 0; r < kRows; ++r) values[r] = F::load(w[r] + size_t{u + 8 * h} * F::kBytes);
#pragma GCC unroll 4
      for (uint32_t m = 0; m < kXRows; ++m) {
        const __m256 xs = _mm256_loadu_ps(x + size_t{m} * columns + u + 8 * h);
#pragma GCC unroll 4
        for (uint32_t r = 0; r < kRows; ++r) sum[m][r][h] = _mm256_fmadd_ps(values[r], xs, sum[m][r][h]);
      }
    }
#pragma GCC unroll 4
  for (uint32_t m = 0; m < kXRows; ++m)
#pragma GCC unroll 4
    for (uint32_t r = 0; r < kRows; ++r) {
      if (whole != columns) {
        alignas(32) float partial[kLanes];
        _mm256_store_ps(partial, sum[m][r][0]);
        _mm256_store_ps(partial + 8, sum[m][r][1]);
        for (uint32_t i = 0; i < columns - whole; ++i)
          partial[i] = fma_f32(in_register(F::one(w[r] + size_t{whole + i} * F::kBytes)),
                               in_register(x[size_t{m} * columns + whole + i]), partial[i]);
        sum[m][r][0] = _mm256_load_ps(partial);
        sum[m][r][1] = _mm256_load_ps(partial + 8);
      }
      if (r >= live) continue;
      const float y = fold_lanes(sum[m][r][0], sum[m][r][1]);
      job.y[(x_first + m) * job.y_columns + row + r] = job.bias != nullptr ? y + job.bias[row + r] : y;
    }
}

// Strips of weight rows that stay in the level-2 cache while the rows of x pass by.
template <class F>
void run_elements(const LinearJob& job) {
  static constexpr decltype(&multiply_elements_tile<F, 1>) kByRows[] = {
      multiply_elements_tile<F, 1>, multiply_elements_tile<F, 2>, multiply_elements_tile<F, 3>};
  const uint32_t panels = (job.x_rows + kElementXRows - 1) / kElementXRows;
  for (uint32_t strip = job.first_row; strip < job.end_row; strip += kStripRows) {
    const uint32_t end = job.end_row - strip < kStripRows ? job.end_row : strip + kStripRows;
    for (uint32_t panel = 0; panel < panels; ++panel) {   // of nearly equal size
      const uint32_t x_first = static_cast<uint32_t>(uint64_t{job.x_rows} * panel / panels);
      const uint32_t x_rows = static_cast<uint32_t>(uint64_t{job.x_rows} * (panel + 1) / panels) - x_first;
      for (uint32_t row = strip; row < end; row += element_rows(x_rows)) kByRows[x_rows - 1](job, row, end, x_first);
    }
  }
}

inline uint64_t no_scratch(uint32_t /*columns*/) { return 0; }

template <class F>
constexpr LinearKernel kElementsKernel = {run_elements<F>, nullptr, no_scratch, kStripRows};

}   // namespace
}   // namespace mote
