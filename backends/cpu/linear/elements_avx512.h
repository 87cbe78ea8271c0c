// `linear` on single elements (F32, F16, BF16) by AVX-512: lane = element mod 16 = partial sum, so that an accumulator
// is the 16 partial sums of one output. Four weight rows and up to six rows of x are multiplied at a time, read as they
// lie: an output is one chain of additions, and only several at once keep the multiplier busy. Internal linkage: see
// kernel_base.h.
#pragma once
#include "backends/cpu/linear/avx512.h"
#include "backends/cpu/linear/row_streams.h"

namespace mote {
namespace {

// A format: kBytes of an element; load(at) gives 16 of them, load(at, live) those of `live`, touching no others.
struct ElementsF32 {
  static constexpr uint32_t kBytes = 4;
  MOTE_INLINE static __m512 load(const uint8_t* at) { return _mm512_loadu_ps(at); }
  MOTE_INLINE static __m512 load(const uint8_t* at, __mmask16 live) { return _mm512_maskz_loadu_ps(live, at); }
};
struct ElementsF16 {
  static constexpr uint32_t kBytes = 2;
  MOTE_INLINE static __m512 load(const uint8_t* at) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  }
  MOTE_INLINE static __m512 load(const uint8_t* at, __mmask16 live) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(live, at));
  }
};
struct ElementsBf16 {
  static constexpr uint32_t kBytes = 2;
  MOTE_INLINE static __m512 widen(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
  MOTE_INLINE static __m512 load(const uint8_t* at) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  }
  MOTE_INLINE static __m512 load(const uint8_t* at, __mmask16 live) {
    return widen(_mm256_maskz_loadu_epi16(live, at));
  }
};

constexpr uint32_t kElementRows = 4;   // weight rows at a time

// The folds of four accumulators, in the order of linear.h.
MOTE_INLINE __m128 fold_four(const __m512 p[4]) {
  const auto halves = [](__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
  };
  const __m512 a = halves(p[0], p[1]), b = halves(p[2], p[3]);   // eight lanes each
  const __m512 four = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
  const __m512 two = _mm512_add_ps(four, _mm512_permute_ps(four, 0x4E));
  const __m512 one = _mm512_add_ps(two, _mm512_permute_ps(two, 0xB1));
  const __m512i first = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);   // of four lanes each
  return _mm512_castps512_ps128(_mm512_permutexvar_ps(first, one));
}

// The weight rows of these numbers, up to four, with rows [first_x, first_x + kXRows) of x. fetch(w, u) has what comes
// next brought closer.
template <class F, uint32_t kXRows, class Fetch>
void multiply_elements(const LinearJob& job, const uint32_t* row, uint32_t rows, uint32_t first_x, Fetch fetch) {
  const uint32_t columns = job.columns, whole = columns / kLanes * kLanes;
  const uint8_t* w[kElementRows];   // beyond the last row that one again, for nothing
  for (uint32_t r = 0; r < kElementRows; ++r) w[r] = job.weights + row[r < rows ? r : rows - 1] * job.weight_row_bytes;
  const float* x = job.x + size_t{first_x} * columns;
  __m512 sum[kXRows][kElementRows];
#pragma GCC unroll 6
  for (uint32_t m = 0; m < kXRows; ++m)
#pragma GCC unroll 4
    for (uint32_t r = 0; r < kElementRows; ++r) sum[m][r] = _mm512_setzero_ps();
  for (uint32_t u = 0; u < whole; u += kLanes) {
    fetch(w, u);
    __m512 values[kElementRows];
#pragma GCC unroll 4
    for (uint32_t r = 0; r < kElementRows; ++r) values[r] = F::load(w[r] + size_t{u} * F::kBytes);
#pragma GCC unroll 6
    for (uint32_t m = 0; m < kXRows; ++m) {
      const __m512 xs = _mm512_loadu_ps(x + size_t{m} * columns + u);
#pragma GCC unroll 4
      for (uint32_t r = 0; r < kElementRows; ++r) sum[m][r] = _mm512_fmadd_ps(values[r], xs, sum[m][r]);
    }
  }
  if (whole != columns) {
    const __mmask16 live = static_cast<__mmask16>((1u << (columns - whole)) - 1);
#pragma GCC unroll 4
    for (uint32_t r = 0; r < kElementRows; ++r) {
      const __m512 values = F::load(w[r] + size_t{whole} * F::kBytes, live);
#pragma GCC unroll 6
      for (uint32_t m = 0; m < kXRows; ++m)
        sum[m][r] = _mm512_mask3_fmadd_ps(values, _mm512_maskz_loadu_ps(live, x + size_t{m} * columns + whole),
                                          sum[m][r], live);
    }
  }
  for (uint32_t m = 0; m < kXRows; ++m) {
    alignas(16) float sums[kElementRows];
    _mm_store_ps(sums, fold_four(sum[m]));
    for (uint32_t r = 0; r < rows; ++r)
      job.y[(first_x + m) * job.y_columns + row[r]] = job.bias != nullptr ? sums[r] + job.bias[row[r]] : sums[r];
  }
}

// One panel of x: every weight row is read once.
template <class F, uint32_t kXRows>
void run_few_elements(const LinearJob& job) {
  const auto fetch = [](const uint8_t* const w[kElementRows], uint32_t u) {
    if (u * F::kBytes % 64 != 0) return;
    for (uint32_t r = 0; r < kElementRows; ++r)
      _mm_prefetch(reinterpret_cast<const char*>(w[r] + u * F::kBytes + kFetchAhead), _MM_HINT_T1);
  };
  visit_rows(job, 0, [&](const RowBatches& batches) {
    batches.visit(kElementRows,
                  [&](const uint32_t* row, uint32_t rows) { multiply_elements<F, kXRows>(job, row, rows, 0, fetch); });
  });
}

// Strips of weight rows that stay in the level-2 cache while the panels of x pass by. Meanwhile the next strip is
// fetched in the order in which it lies in memory.
template <class F, uint32_t kXRows>
void run_element_strip(const LinearJob& job, uint32_t strip, uint32_t end, uint32_t first_x, Ahead ahead) {
  for (uint32_t row = strip; row < end; row += kElementRows) {
    const uint32_t number[kElementRows] = {row, row + 1, row + 2, row + 3};
    multiply_elements<F, kXRows>(job, number, end - row < kElementRows ? end - row : kElementRows, first_x,
                                 [&](const uint8_t* const*, uint32_t) { ahead.step(); });
  }
}

template <class F>
void run_elements(const LinearJob& job) {
  static constexpr decltype(&run_few_elements<F, 1>) kFew[] = {run_few_elements<F, 1>, run_few_elements<F, 2>,
                                                               run_few_elements<F, 3>, run_few_elements<F, 4>,
                                                               run_few_elements<F, 5>, run_few_elements<F, 6>};
  static constexpr decltype(&run_element_strip<F, 1>) kStrips[] = {run_element_strip<F, 1>, run_element_strip<F, 2>,
                                                                   run_element_strip<F, 3>, run_element_strip<F, 4>,
                                                                   run_element_strip<F, 5>, run_element_strip<F, 6>};
  if (job.x_rows <= kTileXRows) return kFew[job.x_rows - 1](job);
  const uint32_t panels = (job.x_rows + kTileXRows - 1) / kTileXRows;
  const uint32_t steps = kStripRows / kElementRows * (job.columns / kLanes);
  for (uint32_t strip = job.first_row; strip < job.end_row; strip += kStripRows) {
    const uint32_t left = job.end_row - strip, end = left < kStripRows ? job.end_row : strip + kStripRows;
    const uint8_t* next = job.weights + (strip + kStripRows) * job.weight_row_bytes;
    for (uint32_t panel = 0; panel < panels; ++panel) {
      const uint32_t first_x = static_cast<uint32_t>(uint64_t{job.x_rows} * panel / panels);
      const uint32_t end_x = static_cast<uint32_t>(uint64_t{job.x_rows} * (panel + 1) / panels);
      const Ahead ahead =
          left > kStripRows ? ahead_of(next, kStripRows * job.weight_row_bytes, panel, panels, steps) : Ahead{};
      kStrips[end_x - first_x - 1](job, strip, end, first_x, ahead);
    }
  }
}

inline uint64_t no_scratch(uint32_t /*columns*/) { return 0; }

template <class F>
constexpr LinearKernel kElementsKernel = {run_elements<F>, nullptr, no_scratch, kStripRows};

}   // namespace
}   // namespace mote
