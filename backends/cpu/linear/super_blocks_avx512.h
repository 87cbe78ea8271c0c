// The kernels of `linear` for super-blocks of 256 weights with AVX-512 and its VNNI dots: one form of x, one few-row
// kernel and one tile for all formats of super_block_formats_avx512.h. Internal linkage: see kernel_base.h.
//
// Inside a super-block everything is an exact integer, so any split over lanes gives the bits of linear.h.
#pragma once
#include "backends/cpu/linear/row_streams.h"
#include "backends/cpu/linear/super_blocks_input_avx512.h"

namespace mote {
namespace {

// ------------------------------------------------------------------------------------------ few rows of x

// Eight lanes for each of two super-blocks, twice, to four lanes for each of the four.
MOTE_INLINE __m512i halve_lanes(__m512i a, __m512i b) {
  return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xDD));
}
// The sums of four lanes: those of `whole` in lanes 0 to 3, of `mins` in lanes 4 to 7.
MOTE_INLINE __m256i sum_four_lanes(__m512i whole, __m512i mins) {
  const __m512i two = _mm512_add_epi32(_mm512_unpacklo_epi32(whole, mins), _mm512_unpackhi_epi32(whole, mins));
  const __m512i sum = _mm512_add_epi32(two, _mm512_shuffle_epi32(two, _MM_PERM_BADC));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0);
  return _mm512_castsi512_si256(_mm512_permutexvar_epi32(order, sum));
}

// What four super-blocks add to an output: fma(scales, sums), of the mins in lanes 4 to 7.
struct Terms {
  __m256 scales, sums;
};

// Four super-blocks at at(0..3) with kRows rows of x from `x` on; add(m, terms) for each. All is unpacked before, so
// that a second row of x costs only dots.
template <class F, uint32_t kRows, class At, class Add>
MOTE_INLINE void multiply_step(At at, const uint8_t* x, size_t x_stride, Add add) {
  using Input = typename F::Input;
  using Form = FewForm<Input>;
  static_assert(F::kOddShift == 0 || Input::kMins);   // a sum that begins with the zero's would be shifted with it
  __m512i codes[16], scales[4], mins[Input::kMins ? Input::kMinVectors : 1];
  F::unpack_step(at, codes, scales);
  if constexpr (Input::kMins) F::load_mins(at, mins);
  const __m256 d = F::load_scales(at);
#pragma GCC unroll 4
  for (uint32_t m = 0; m < kRows; ++m, x += x_stride) {
    __m512i whole[4];
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      __m512i dot = Input::kMins ? _mm512_setzero_si512() : _mm512_load_si512(x + Form::kSums + g * 64);
#pragma GCC unroll 4
      for (int w = 0; w < 4; ++w)
        dot = _mm512_dpbusd_epi32(dot, codes[g * 4 + w], _mm512_load_si512(x + (g * 4 + w) * 64));
      whole[g] = _mm512_mullo_epi32(dot, scales[g]);
      if (F::kOddShift != 0 && g % 2 == 1) whole[g] = _mm512_srai_epi32(whole[g], F::kOddShift);
    }
    const __m512i low = _mm512_add_epi32(whole[0], whole[1]), high = _mm512_add_epi32(whole[2], whole[3]);
    const __m512i four = Input::kPairs ? halve_lanes(low, high) : _mm512_add_epi32(low, high);
    __m512i four_mins = _mm512_setzero_si512();
    if constexpr (Input::kMins) {
      four_mins = _mm512_madd_epi16(mins[0], _mm512_load_si512(x + Form::kSums));
      if constexpr (Input::kMinVectors == 2)
        four_mins = halve_lanes(four_mins, _mm512_madd_epi16(mins[1], _mm512_load_si512(x + Form::kSums + 64)));
    }
    const __m128 dx = _mm_load_ps(reinterpret_cast<const float*>(x + Form::kScales));
    add(m, Terms{_mm256_mul_ps(d, _mm256_set_m128(dx, dx)), _mm256_cvtepi32_ps(sum_four_lanes(four, four_mins))});
  }
}

// partial + terms, in the order of linear.h.
template <bool mins>
MOTE_INLINE __m128 add_terms(const float* partial, const Terms& terms) {
  const __m128 sum =
      _mm_fmadd_ps(_mm256_castps256_ps128(terms.scales), _mm256_castps256_ps128(terms.sums), _mm_load_ps(partial));
  if constexpr (!mins) return sum;
  return _mm_fnmadd_ps(_mm256_extractf128_ps(terms.scales, 1), _mm256_extractf128_ps(terms.sums, 1), sum);
}
// `fold_lanes` of what was written four at a time: one load of all would wait for the writes.
MOTE_INLINE float fold_quarters(const float* p) {
  const __m128 even = _mm_add_ps(_mm_load_ps(p), _mm_load_ps(p + 8));
  const __m128 four = _mm_add_ps(even, _mm_add_ps(_mm_load_ps(p + 4), _mm_load_ps(p + 12)));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// The whole steps of one weight row.
template <class F, uint32_t kRows>
MOTE_INLINE void add_steps(const uint8_t* weights, uint32_t steps, const uint8_t* x, size_t x_stride,
                           float (*partial)[kLanes]) {
  using Input = typename F::Input;
  for (uint32_t g = 0; g < steps; ++g, weights += 4 * F::kBytes, x += FewForm<Input>::kStepBytes) {
    // Into L2: beside x in a small L1, a fetch into that costs more than it gives.
    for (uint32_t line = 0; line < 4 * F::kBytes; line += 64)
      _mm_prefetch(reinterpret_cast<const char*>(weights + kFetchAhead + line), _MM_HINT_T1);
    multiply_step<F, kRows>([&](int i) { return weights + static_cast<uint32_t>(i) * F::kBytes; }, x, x_stride,
                            [&](uint32_t m, const Terms& terms) {
                              float* to = partial[m] + g % 4 * 4;
                              _mm_store_ps(to, add_terms<Input::kMins>(to, terms));
                            });
  }
}

// The step that `rows` weight rows share, `rest` super-blocks of each, `offset` bytes from where the row begins;
// `first` is the number of the first partial sum.
template <class F, uint32_t kRows>
MOTE_INLINE void add_last_step(const uint8_t* const* at, size_t offset, uint32_t rows, uint32_t rest, const uint8_t* x,
                               size_t x_stride, uint32_t first, float (*partial)[kRows][kLanes]) {
  const uint8_t* slots[4];   // those beyond the last row read a block that is there, for nothing
  for (uint32_t i = 0; i < 4; ++i)
    slots[i] = at[i / rest < rows ? i / rest : 0] + offset + size_t{i % rest} * F::kBytes;
  const __mmask8 live = static_cast<__mmask8>((1u << rest) - 1);
  multiply_step<F, kRows>([&](int i) { return slots[i]; }, x, x_stride,
                          [&](uint32_t m, const Terms& terms) {
                            for (uint32_t r = 0; r < rows; ++r) {   // its slots to the front
                              const __m256i order = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 0, 1, 2, 3),
                                                                     _mm256_set1_epi32(static_cast<int>(r * rest)));
                              const Terms own = {_mm256_permutevar_ps(terms.scales, order),
                                                 _mm256_permutevar_ps(terms.sums, order)};
                              float* to = partial[r][m] + first;
                              _mm_mask_store_ps(to, live, add_terms<F::Input::kMins>(to, own));
                            }
                          });
}

// Batches of weight rows with the kRows rows of x.
template <class F, uint32_t kRows>
void few_super_rows(const LinearJob& job, const RowBatches& batches) {
  using Form = FewForm<typename F::Input>;
  const uint32_t blocks = job.columns / 256, full = blocks / 4, rest = blocks % 4;
  const uint32_t sharing = rest == 0 ? 4 : 4 / rest;   // weight rows that share their last step
  const size_t x_stride = Form::row_bytes(blocks);
  const uint8_t* const x = job.input;
  batches.visit(4, [&](const uint32_t* row, uint32_t rows) {
    const uint8_t* at[4] = {};
    alignas(64) float partial[4][kRows][kLanes];
    for (uint32_t r = 0; r < rows; ++r) {
      at[r] = job.weights + row[r] * job.weight_row_bytes;
      for (uint32_t m = 0; m < kRows; ++m) _mm512_store_ps(partial[r][m], _mm512_setzero_ps());
      add_steps<F, kRows>(at[r], full, x, x_stride, partial[r]);
    }
    for (uint32_t r = 0; rest != 0 && r < rows; r += sharing)
      add_last_step<F, kRows>(at + r, size_t{full} * 4 * F::kBytes, rows - r < sharing ? rows - r : sharing, rest,
                              x + full * Form::kStepBytes, x_stride, full % 4 * 4, partial + r);
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t m = 0; m < kRows; ++m) {
        const float sum = fold_quarters(partial[r][m]);
        job.y[m * job.y_columns + row[r]] = job.bias != nullptr ? sum + job.bias[row[r]] : sum;
      }
  });
}

template <class F, uint32_t kRows>
void visit_few_super_rows(const LinearJob& job) {
  const size_t x_bytes = kRows * static_cast<size_t>(FewForm<typename F::Input>::row_bytes(job.columns / 256));
  visit_rows(job, x_bytes, [&](const RowBatches& batches) { few_super_rows<F, kRows>(job, batches); });
}

// ------------------------------------------------------------------------------------------ panels of x

using RowsOfStrip = WeightRows<kStripRows>;

// Super-block `b` of these weight rows, as a strip has it.
template <class F>
void unpack_super_block(const RowsOfStrip& rows, uint32_t b, uint8_t* to) {
  for (uint32_t half = 0; half < 2; ++half)
    F::unpack_rows([&](int r) { return rows.at[half * 16 + static_cast<uint32_t>(r)] + size_t{b} * F::kBytes; },
                   to + half * 64);
}
using UnpackSuperBlock = void (*)(const RowsOfStrip& rows, uint32_t b, uint8_t* to);

// One super-block of a strip with one of a panel: the exact sums of kRows rows of x and 32 weight rows.
template <class Input, uint32_t kRows>
MOTE_INLINE void multiply_block(const uint8_t* w, const uint8_t* x, Ahead& ahead, __m512i whole[kRows][2]) {
  constexpr uint32_t kWords = Input::kSub / 4;
  const uint8_t* biases = x + PanelForm<Input>::kSums * kRows;
#pragma GCC unroll 8
  for (uint32_t m = 0; m < kRows; ++m) whole[m][0] = whole[m][1] = _mm512_setzero_si512();
  for (uint32_t j = 0; j < Input::kSubs; ++j) {
    ahead.step();
    __m512i dot[kRows][2];
#pragma GCC unroll 8
    for (uint32_t m = 0; m < kRows; ++m)
      dot[m][0] = dot[m][1] = Input::kMins ? _mm512_setzero_si512() : broadcast_word(biases + (j * kRows + m) * 4);
#pragma GCC unroll 8
    for (uint32_t k = 0; k < kWords; ++k) {
      const uint8_t* word = w + (j * kWords + k) * 128;
      const __m512i w0 = _mm512_load_si512(word), w1 = _mm512_load_si512(word + 64);
#pragma GCC unroll 8
      for (uint32_t m = 0; m < kRows; ++m) {
        const __m512i four = broadcast_word(x + ((j * kWords + k) * kRows + m) * 4);
        dot[m][0] = _mm512_dpbusd_epi32(dot[m][0], w0, four);
        dot[m][1] = _mm512_dpbusd_epi32(dot[m][1], w1, four);
      }
    }
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      const __m512i scale = _mm512_load_si512(w + Strip<Input>::kScales + j * 128 + v * 64);
#pragma GCC unroll 8
      for (uint32_t m = 0; m < kRows; ++m)
        whole[m][v] = _mm512_add_epi32(whole[m][v], _mm512_mullo_epi32(dot[m][v], scale));
    }
  }
}

// Their terms added to the partial sums.
template <class Input, uint32_t kRows>
MOTE_INLINE void add_block(const uint8_t* w, const uint8_t* x, const __m512i whole[kRows][2],
                           __m512 partial[kRows][2]) {
  using Place = Strip<Input>;
  const uint8_t *sums = x + PanelForm<Input>::kSums * kRows, *scales = x + PanelForm<Input>::kScales * kRows;
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v)
#pragma GCC unroll 8
    for (uint32_t m = 0; m < kRows; ++m) {
      const __m512 dx = broadcast_float(scales + m * 4), d = _mm512_load_ps(w + Place::kD + v * 64);
      partial[m][v] = _mm512_fmadd_ps(_mm512_mul_ps(d, dx), _mm512_cvtepi32_ps(whole[m][v]), partial[m][v]);
      if constexpr (Input::kMins) {
        __m512i mins = _mm512_setzero_si512();
#pragma GCC unroll 8
        for (uint32_t j = 0; j < Input::kSubs / 2; ++j)
          mins = _mm512_dpwssd_epi32(mins, _mm512_load_si512(w + Place::kMin + j * 128 + v * 64),
                                     broadcast_word(sums + (j * kRows + m) * 4));
        const __m512 min_d = _mm512_load_ps(w + Place::kMinD + v * 64);
        partial[m][v] = _mm512_fnmadd_ps(_mm512_mul_ps(min_d, dx), _mm512_cvtepi32_ps(mins), partial[m][v]);
      }
    }
}

// A strip with a panel; `row` and `first_x` are the first of both. Where `unpack` is given, w has room for one
// super-block, and each of `rows` is unpacked there when its turn comes: the only panel finds it in the nearest cache.
template <class Input, uint32_t kRows>
void multiply_super_panel(const LinearJob& job, uint8_t* w, UnpackSuperBlock unpack, const RowsOfStrip& rows,
                          const uint8_t* x, Ahead ahead, uint32_t row, uint32_t first_x) {
  const uint32_t blocks = job.columns / 256;
  __m512 waiting[5][kRows][2];   // sums that wait for their partner in the fold
  for (uint32_t step = 0; step < kLanes; ++step) {
    __m512 partial[kRows][2];   // touched once per super-block: the registers belong to the integers
    for (uint32_t m = 0; m < kRows; ++m) partial[m][0] = partial[m][1] = _mm512_setzero_ps();
    for (uint32_t b = partial_of_step(step); b < blocks; b += kLanes) {
      if (unpack != nullptr) unpack(rows, b, w);
      __m512i whole[kRows][2];
      multiply_block<Input, kRows>(w, x, ahead, whole);
      add_block<Input, kRows>(w, x, whole, partial);
      if (unpack == nullptr) w += Strip<Input>::kBytes;
      x += PanelForm<Input>::kBlockBytes * kRows;
    }
    uint32_t level = 0;
    for (; (step >> level & 1) != 0; ++level)
      for (uint32_t m = 0; m < kRows; ++m)
        for (int v = 0; v < 2; ++v) partial[m][v] = _mm512_add_ps(waiting[level][m][v], partial[m][v]);
    for (uint32_t m = 0; m < kRows; ++m)
      for (int v = 0; v < 2; ++v) waiting[level][m][v] = partial[m][v];
  }
  const uint32_t left = job.end_row - row, live = left >= kStripRows ? ~0u : (1u << left) - 1;
  for (uint32_t m = 0; m < kRows; ++m)
    for (uint32_t v = 0; v < 2; ++v) {
      const __mmask16 lanes = static_cast<__mmask16>(live >> v * 16);
      __m512 sum = waiting[4][m][v];
      if (job.bias != nullptr) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(lanes, job.bias + row + v * 16));
      _mm512_mask_storeu_ps(job.y + (first_x + m) * job.y_columns + row + v * 16, lanes, sum);
    }
}

template <class F>
void run_super_panels(const LinearJob& job) {
  using Input = typename F::Input;
  static constexpr decltype(&multiply_super_panel<Input, 3>) kByRows[] = {
      multiply_super_panel<Input, 3>, multiply_super_panel<Input, 4>, multiply_super_panel<Input, 5>,
      multiply_super_panel<Input, 6>};
  static_assert(kFewRows == 2);
  const uint32_t blocks = job.columns / 256;
  const Panels panels(job.x_rows);
  uint8_t* const strip = static_cast<uint8_t*>(job.scratch);
  for (uint32_t row = job.first_row; row < job.end_row; row += kStripRows) {
    const RowsOfStrip rows(job, row);
    uint8_t* to = strip;
    if (panels.count > 1)
      visit_units(blocks, [&](uint32_t b) {
        unpack_super_block<F>(rows, b, to);
        to += Strip<Input>::kBytes;
      });
    const uint8_t* next = job.weights + (row + kStripRows) * job.weight_row_bytes;
    for (uint32_t panel = 0; panel < panels.count; ++panel) {
      const uint32_t first_x = panels.first(panel), x_rows = panels.first(panel + 1) - first_x;
      Ahead ahead;
      if (job.end_row - row > kStripRows)
        ahead = ahead_of(next, kStripRows * job.weight_row_bytes, panel, panels.count, blocks * Input::kSubs);
      const uint8_t* x = job.input + size_t{first_x} * blocks * PanelForm<Input>::kBlockBytes;
      kByRows[x_rows - 3](job, strip, panels.count > 1 ? nullptr : &unpack_super_block<F>, rows, x, ahead, row,
                          first_x);
    }
  }
}

// ------------------------------------------------------------------------------------------ the kernels

template <class F>
void run_super_blocks(const LinearJob& job) {
  static_assert(kFewRows == 2);
  switch (job.x_rows) {
    case 1:
      return visit_few_super_rows<F, 1>(job);
    case 2:
      return visit_few_super_rows<F, 2>(job);
    default:
      return run_super_panels<F>(job);
  }
}

template <class F>
uint64_t super_strip_bytes(uint32_t columns) {
  return uint64_t{columns / 256} * Strip<typename F::Input>::kBytes;
}

template <class F>
constexpr LinearKernel kSuperBlockKernel = {run_super_blocks<F>, &kSuperBlockForm<typename F::Input>,
                                            super_strip_bytes<F>, kStripRows};

}   // namespace
}   // namespace mote
