// `linear` on single elements (F32, F16, BF16) by AVX-512: lane = element mod 16 = partial sum, so that an accumulator
// is the 16 partial sums of one output. Four weight rows and up to six rows of x are multiplied at a time, read as they
// lie: an output is one chain of additions, and only several at once keep the multiplier busy. Internal linkage: see
// kernel_base.h.
#pragma once
#include "backends/cpu/linear/avx512.h"
#include "backends/cpu/linear/linear.h"

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

// Weight rows [row, row + 4), as far as they are below end_row, with rows [first_x, first_x + kXRows) of x.
template <class F, uint32_t kXRows>
void multiply_elements(const LinearJob& job, uint32_t row, uint32_t first_x, Ahead& ahead) {
  const uint32_t left = job.end_row - row, columns = job.columns, whole = columns / kLanes * kLanes;
  const uint8_t* w[kElementRows];   // beyond the last row that one again, for nothing
  for (uint32_t r = 0; r < kElementRows; ++r)
    w[r] = job.weights + (row + (r < left ? r : left - 1)) * job.weight_row_bytes;
  const float* x = job.x + size_t{first_x} * columns;
  __m512 sum[kXRows][kElementRows];
#pragma GCC unroll 6
  for (uint32_t m = 0; m < kXRows; ++m)
#pragma GCC unroll 4
    for (uint32_t r = 0; r < kElementRows; ++r) sum[m][r] = _mm512_setzero_ps();
  for (uint32_t u = 0; u < whole; u += kLanes) {
    ahead.step();
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
  const __mmask8 live = static_cast<__mmask8>(left < kElementRows ? (1u << left) - 1 : 15);
  const __m128 bias = job.bias != nullptr ? _mm_maskz_loadu_ps(live, job.bias + row) : _mm_setzero_ps();
#pragma GCC unroll 6
  for (uint32_t m = 0; m < kXRows; ++m) {
    __m128 y = fold_four(sum[m]);
    if (job.bias != nullptr) y = _mm_add_ps(y, bias);
    _mm_mask_storeu_ps(job.y + (first_x + m) * job.y_columns + row, live, y);
  }
}

// Strips of weight rows that stay in the level-2 cache while the panels of x pass by. Meanwhile what comes next is
// fetched in the order in which it lies in memory, four rows at a time are four streams: with one panel the next four
// rows, with more the next strip.
template <class F>
void run_elements(const LinearJob& job) {
  static constexpr decltype(&multiply_elements<F, 1>) kByRows[] = {multiply_elements<F, 1>, multiply_elements<F, 2>,
                                                                   multiply_elements<F, 3>, multiply_elements<F, 4>,
                                                                   multiply_elements<F, 5>, multiply_elements<F, 6>};
  const uint32_t panels = (job.x_rows + kTileXRows - 1) / kTileXRows;
  const uint32_t steps = kStripRows / kElementRows * (job.columns / kLanes);
  for (uint32_t strip = job.first_row; strip < job.end_row; strip += kStripRows) {
    const uint32_t left = job.end_row - strip, end = left < kStripRows ? job.end_row : strip + kStripRows;
    const uint8_t* weights = job.weights + strip * job.weight_row_bytes;
    for (uint32_t panel = 0; panel < panels; ++panel) {
      const uint32_t first_x = static_cast<uint32_t>(uint64_t{job.x_rows} * panel / panels);
      const uint32_t end_x = static_cast<uint32_t>(uint64_t{job.x_rows} * (panel + 1) / panels);
      Ahead ahead;
      if (panels == 1)
        ahead = {weights + kElementRows * job.weight_row_bytes, kElementRows * kLanes * F::kBytes / 64};
      else if (left > kStripRows)
        ahead = ahead_of(weights + kStripRows * job.weight_row_bytes, kStripRows * job.weight_row_bytes, panel, panels,
                         steps);
      for (uint32_t row = strip; row < end; row += kElementRows) kByRows[end_x - first_x - 1](job, row, first_x, ahead);
    }
  }
}

inline uint64_t no_scratch(uint32_t /*columns*/) { return 0; }

template <class F>
constexpr LinearKernel kElementsKernel = {run_elements<F>, nullptr, no_scratch, kStripRows};

}   // namespace
}   // namespace mote
