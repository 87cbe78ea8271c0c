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
  // Lane i gets those of lane from[i].
  MOTE_INLINE GroupTerms permuted(__m512i from) const {
    GroupTerms to;
    to.scales = _mm512_permutexvar_ps(from, scales);
    to.dots = _mm512_permutexvar_ps(from, dots);
    if constexpr (F::kMins) {
      to.mins = _mm512_permutexvar_ps(from, mins);
      to.sums = _mm512_permutexvar_ps(from, sums);
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

// The partial sums of a batch of weight rows.
using Partials = float[kRowsAtATime][kLanes];

// The whole groups of `together` weight rows with the `count` rows of x; of one or the other there is one. `r`: the
// first row's number in the batch.
template <class F, uint32_t count, uint32_t together>
MOTE_INLINE void multiply_rows(const uint8_t* const (&rows)[together], uint32_t groups, const uint8_t* x, size_t x_size,
                               uint32_t r, Partials (&sums)[count]) {
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

// The tails of a batch of weight rows, blocks behind the last whole group: `sharing` rows have a step together, whose
// lane i is block i % rest of row i / rest of them.
struct Tails {
  uint32_t rows, rest, sharing;
  // By step and lane, from where the batch begins; lanes without a block have another's.
  size_t at[kRowsAtATime][kLanes];

  Tails(const RowBatches& batches, uint32_t rows_, uint32_t blocks, uint32_t block_bytes)
      : rows(rows_), rest(blocks % kLanes), sharing(rest == 0 ? kRowsAtATime : kLanes / rest) {
    for (uint32_t first = 0; rest != 0 && first < rows; first += sharing)
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        const uint32_t row = first + lane / rest;
        at[first / sharing][lane] = batches.offset[lane < sharing * rest && row < rows ? row : first] +
                                    size_t{blocks - rest + lane % rest} * block_bytes;
      }
  }
};

// Adds them. `x`: the tail of the first row of x.
template <class F, uint32_t count>
MOTE_INLINE void add_tails(const Tails& tails, const uint8_t* weights, const uint8_t* x, size_t x_size,
                           Partials (&sums)[count]) {
  const __mmask16 live = static_cast<__mmask16>((1u << tails.rest) - 1);
  for (uint32_t first = 0; tails.rest != 0 && first < tails.rows; first += tails.sharing) {
    const size_t* const at = tails.at[first / tails.sharing];
    Group<F> group[1];
    group[0].unpack([&](int i) { return weights + at[i]; });
    const uint32_t end = tails.rows - first < tails.sharing ? tails.rows : first + tails.sharing;
#pragma GCC unroll 2
    for (uint32_t m = 0; m < count; ++m) {
      GroupTerms<F> terms[1];
      multiply_groups(group, x + m * x_size, terms);
      __m512i own = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      for (uint32_t r = first; r < end; ++r) {
        _mm512_store_ps(sums[m][r], terms[0].permuted(own).add_to(_mm512_load_ps(sums[m][r]), live));
        own = _mm512_add_epi32(own, _mm512_set1_epi32(static_cast<int>(tails.rest)));
      }
    }
  }
}

// Batches of weight rows with the `count` rows of x.
template <class F, uint32_t count>
void few_rows(const LinearJob& job, const RowBatches& batches) {
  const uint32_t full = job.columns / 32 / kLanes;
  const size_t x_size = static_cast<size_t>(few_rows_bytes(1, job.columns));
  const uint8_t* const x = job.input;
  const Tails tails(batches, kRowsAtATime, job.columns / 32, F::kBytes);
  alignas(64) Partials sums[count];
  for (uint32_t row = batches.first; row < batches.end; row += batches.step) {
    const uint32_t rows = batches.rows_at(row);
    const uint8_t* const weights = job.weights + row * job.weight_row_bytes;
    const auto begin = [&](uint32_t r) { return weights + batches.offset[r]; };
    if (count == 1 && batches.step < kRowsAtATime) {   // two rows in two places of memory
      for (uint32_t r = 0; r < rows; r += 2)
        multiply_rows<F, count, 2>({begin(r), begin(r + 1)}, full, x, x_size, r, sums);
    } else {
      for (uint32_t r = 0; r < rows; ++r) multiply_rows<F, count, 1>({begin(r)}, full, x, x_size, r, sums);
    }
    const uint8_t* const x_tail = x + size_t{full} * kGroupBytes;
    if (rows == kRowsAtATime)
      add_tails<F>(tails, weights, x_tail, x_size, sums);
    else
      add_tails<F>(Tails(batches, rows, job.columns / 32, F::kBytes), weights, x_tail, x_size, sums);
    for (uint32_t m = 0; m < count; ++m)
      for (uint32_t r = 0; r < rows; ++r) {
        const float sum = fold_lanes(_mm512_load_ps(sums[m][r]));
        const uint32_t to = row + batches.place[r];
        job.y[m * job.y_columns + to] = job.bias != nullptr ? sum + job.bias[to] : sum;
      }
  }
}

template <class F, uint32_t count>
void visit_few_rows(const LinearJob& job) {
  visit_rows(job, few_rows_bytes(count, job.columns),
             [&](const RowBatches& batches) { few_rows<F, count>(job, batches); });
}

}   // namespace
}   // namespace mote
