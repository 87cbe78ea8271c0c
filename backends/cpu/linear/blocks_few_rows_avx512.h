// Blocks of 32 with one or two rows of x by AVX-512: see blocks_avx512.h. Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/block_lanes_avx512.h"
#include "backends/cpu/linear/blocks_input_avx512.h"
#include "backends/cpu/linear/row_streams.h"

namespace mote {
namespace {

// One group of 16 blocks of a weight row, unpacked.
template <class F>
struct Group {
  __m512i codes[8];
  __m512 scale, min;

  template <class At>
  MOTE_INLINE void unpack(At at) {
    F::unpack(at, codes);
    scale = load_halves(at, 0);
    if constexpr (F::kMins) min = load_halves(at, 2);
  }
};

// What 16 blocks add to partial sums: fma(scales, dots), then, of mins, fma(mins, sums).
template <class F>
struct GroupTerms {
  __m512 scales, dots, mins, sums;

  MOTE_INLINE __m512 add_to(__m512 acc, __mmask16 live) const {
    acc = _mm512_mask3_fmadd_ps(scales, dots, acc, live);
    if constexpr (F::kMins) acc = _mm512_mask3_fmadd_ps(mins, sums, acc, live);
    return acc;
  }
  // Lane i gets those of lane from[i], whose blocks of x are its own.
  MOTE_INLINE GroupTerms permuted(__m512i from) const {
    GroupTerms to;
    to.scales = _mm512_permutexvar_ps(from, scales);
    to.dots = _mm512_permutexvar_ps(from, dots);
    if constexpr (F::kMins) {
      to.mins = _mm512_permutexvar_ps(from, mins);
      to.sums = sums;
    }
    return to;
  }
};

// Groups of `together` weight rows with one row of x, which is read once. Dots of shifted codes are shifted back: one
// shift instead of four.
template <class F, uint32_t together>
MOTE_INLINE void multiply_groups(const Group<F> (&groups)[together], const uint8_t* x,
                                 GroupTerms<F> (&terms)[together]) {
  const __m512 scale_x = _mm512_load_ps(x + 512);
  __m512i dot[together], high[together];
#pragma GCC unroll 2
  for (uint32_t r = 0; r < together; ++r) {
    dot[r] = F::kMins ? _mm512_setzero_si512() : _mm512_load_si512(x + 576);
    high[r] = _mm512_setzero_si512();
  }
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) {
    const __m512i codes_x = _mm512_load_si512(x + j * 64);
#pragma GCC unroll 2
    for (uint32_t r = 0; r < together; ++r) {
      __m512i& half = j < 4 || F::kHighShift == 0 ? dot[r] : high[r];
      half = _mm512_dpbusd_epi32(half, groups[r].codes[j], codes_x);
    }
  }
#pragma GCC unroll 2
  for (uint32_t r = 0; r < together; ++r) {
    if constexpr (F::kHighShift != 0) dot[r] = _mm512_add_epi32(dot[r], _mm512_srai_epi32(high[r], F::kHighShift));
    terms[r].scales = _mm512_mul_ps(groups[r].scale, scale_x);
    terms[r].dots = _mm512_cvtepi32_ps(dot[r]);
    if constexpr (F::kMins) {
      terms[r].mins = _mm512_mul_ps(groups[r].min, scale_x);
      terms[r].sums = _mm512_load_ps(x + 576);
    }
  }
}

// The partial sums of the weight rows that are folded together.
using Partials = float[kRowsAtATime][kLanes];

// The whole groups of `together` weight rows with the `count` rows of x; at least one of the two is 1. `r`: the number
// of the first weight row in `sums`.
template <class F, uint32_t count, uint32_t together>
MOTE_INLINE void multiply_rows(const uint8_t* const (&rows)[together], uint32_t groups, const uint8_t* x, size_t x_size,
                               uint32_t r, Partials (&sums)[count]) {
  static_assert(count == 1 || together == 1);
  __m512 acc[count][together];
#pragma GCC unroll 2
  for (uint32_t m = 0; m < count; ++m)
#pragma GCC unroll 2
    for (uint32_t i = 0; i < together; ++i) acc[m][i] = _mm512_setzero_ps();
  for (uint32_t g = 0; g < groups; ++g, x += kGroupBytes) {
    const size_t begin = size_t{g} * kLanes * F::kBytes;
#pragma GCC unroll 2
    for (uint32_t i = 0; i < together; ++i)
      for (uint32_t line = 0; line < kLanes * F::kBytes; line += 64)
        _mm_prefetch(reinterpret_cast<const char*>(rows[i] + begin + kFetchAhead + line), _MM_HINT_T1);
    Group<F> group[together];
#pragma GCC unroll 2
    for (uint32_t i = 0; i < together; ++i)
      group[i].unpack([&](int b) { return rows[i] + begin + static_cast<uint32_t>(b) * F::kBytes; });
#pragma GCC unroll 2
    for (uint32_t m = 0; m < count; ++m) {
      GroupTerms<F> terms[together];
      multiply_groups(group, x + m * x_size, terms);
#pragma GCC unroll 2
      for (uint32_t i = 0; i < together; ++i) acc[m][i] = terms[i].add_to(acc[m][i], 0xffff);
    }
  }
#pragma GCC unroll 2
  for (uint32_t m = 0; m < count; ++m)
#pragma GCC unroll 2
    for (uint32_t i = 0; i < together; ++i) _mm512_store_ps(sums[m][r + i], acc[m][i]);
}

// The outputs of weight row `row`, whose partial sums are the r-th.
template <uint32_t count>
MOTE_INLINE void store_sum(const LinearJob& job, const Partials (&sums)[count], uint32_t r, uint32_t row) {
  for (uint32_t m = 0; m < count; ++m) {
    const float sum = fold_lanes(_mm512_load_ps(sums[m][r]));
    job.y[m * job.y_columns + row] = job.bias != nullptr ? sum + job.bias[row] : sum;
  }
}

// Batches of weight rows that are whole groups.
template <class F, uint32_t count>
void multiply_batches(const LinearJob& job, const RowBatches& batches) {
  const uint32_t groups = job.columns / 32 / kLanes;
  const size_t x_size = static_cast<size_t>(few_rows_bytes(1, job.columns));
  alignas(64) Partials sums[count];
  for (uint32_t row = batches.first; row < batches.end; row += batches.step) {
    const uint32_t rows = batches.rows_at(row);
    const uint8_t* const weights = job.weights + row * job.weight_row_bytes;
    const auto begin = [&](uint32_t r) { return weights + batches.offset[r]; };
    uint32_t done = 0;
    if constexpr (count == 1)   // two rows in two places of memory
      for (; batches.step < kRowsAtATime && done < rows; done += 2)
        multiply_rows<F, 1, 2>({begin(done), begin(done + 1)}, groups, job.input, x_size, done, sums);
    for (; done < rows; ++done) multiply_rows<F, count, 1>({begin(done)}, groups, job.input, x_size, done, sums);
    for (uint32_t r = 0; r < rows; ++r) store_sum(job, sums, r, row + batches.place[r]);
  }
}

// Weight rows with `rest` blocks behind their last whole group. As many rows as have room share a step for these: lane
// i is block i % rest of row i / rest, at[i] bytes from where the first of the rows begins. Lanes without a block have
// the first row's.
inline void place_tails(const LinearJob& job, uint32_t block_bytes, uint32_t rest, uint32_t rows, size_t at[kLanes]) {
  const size_t whole = size_t{job.columns / 32 - rest} * block_bytes;
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    at[lane] =
        (lane / rest < rows ? lane / rest : 0) * job.weight_row_bytes + whole + size_t{lane % rest} * block_bytes;
}
template <class F, uint32_t count>
void multiply_with_tails(const LinearJob& job) {
  const uint32_t groups = job.columns / 32 / kLanes, rest = job.columns / 32 % kLanes, together = kLanes / rest;
  const size_t x_size = static_cast<size_t>(few_rows_bytes(1, job.columns));
  const uint8_t* const x_tail = job.input + size_t{groups} * kGroupBytes;
  const __mmask16 live = static_cast<__mmask16>((1u << rest) - 1);
  size_t tail[kLanes];
  place_tails(job, F::kBytes, rest, together, tail);
  alignas(64) Partials sums[count];
  for (uint32_t row = job.first_row; row < job.end_row; row += together) {
    const uint32_t rows = job.end_row - row < together ? job.end_row - row : together;
    if (rows < together) place_tails(job, F::kBytes, rest, rows, tail);
    const uint8_t* const weights = job.weights + row * job.weight_row_bytes;
    for (uint32_t r = 0; r < rows; ++r)
      multiply_rows<F, count, 1>({weights + r * job.weight_row_bytes}, groups, job.input, x_size, r, sums);
    Group<F> group[1];
    group[0].unpack([&](int i) { return weights + tail[i]; });
#pragma GCC unroll 2
    for (uint32_t m = 0; m < count; ++m) {
      GroupTerms<F> terms[1];
      multiply_groups(group, x_tail + m * x_size, terms);
      __m512i own = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      for (uint32_t r = 0; r < rows; ++r) {
        _mm512_store_ps(sums[m][r], terms[0].permuted(own).add_to(_mm512_load_ps(sums[m][r]), live));
        own = _mm512_add_epi32(own, _mm512_set1_epi32(static_cast<int>(rest)));
      }
    }
    for (uint32_t r = 0; r < rows; ++r) store_sum(job, sums, r, row + r);
  }
}

// Rows with tails are read in order: by streams, memory does not keep up.
template <class F, uint32_t count>
void multiply_few_rows(const LinearJob& job) {
  if (job.columns / 32 % kLanes != 0) return multiply_with_tails<F, count>(job);
  visit_rows(job, few_rows_bytes(count, job.columns),
             [&](const RowBatches& batches) { multiply_batches<F, count>(job, batches); });
}

}   // namespace
}   // namespace mote
