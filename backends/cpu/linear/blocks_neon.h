// `linear` on blocks and super-blocks by ARM's 8-bit dot product or matrix product, in the two shapes that neon.h
// describes. Included by files compiled with +dotprod at least. Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/block_codes_neon.h"
#include "backends/cpu/linear/blocks_input_neon.h"
#include "mote_build.h"

namespace mote {
namespace {

// ------------------------------------------------------------------------------------------ few rows of x

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
#pragma GCC unroll 4
  for (uint32_t i = 0; i < kQuad; ++i) multiply_unit<F, count>(at[i], x + i * F::kUnit, x_size, whole[i]);
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
void few_rows(const LinearJob& job, uint32_t first, uint32_t end, uint32_t x_first) {
  static_assert(F::kBytes <= sizeof kNoBlock);
  const uint32_t units = job.columns / F::kUnit, full = units / kQuad, rest = units % kQuad;
  const size_t x_size = few_rows_bytes<F::kUnit>(1, job.columns);
  for (uint32_t row = first; row < end; ++row) {
    const uint8_t* block = job.weights + row * job.weight_row_bytes;
    const uint8_t* x = job.input + x_first * x_size;
    float partial[count][kLanes] = {};
    for (uint32_t q = 0; q < full; ++q, block += kQuad * F::kBytes, x += InputQuad<F::kUnit>::kBytes) {
      const uint8_t* const at[kQuad] = {block, block + F::kBytes, block + 2 * F::kBytes, block + 3 * F::kBytes};
      add_quad<F, count>(at, x, x_size, &partial[0][q % kQuad * kQuad]);
    }
    if (rest != 0) {
      const uint8_t* at[kQuad];
      for (uint32_t i = 0; i < kQuad; ++i) at[i] = i < rest ? block + i * F::kBytes : kNoBlock;
      add_quad<F, count>(at, x, x_size, &partial[0][full % kQuad * kQuad]);
    }
    for (uint32_t m = 0; m < count; ++m) {
      const float sum = fold16(partial[m]);
      job.y[(x_first + m) * job.y_columns + row] = job.bias != nullptr ? sum + job.bias[row] : sum;
    }
  }
}

// Four rows of x at a time, over 16 weight rows that the next four find in the cache.
template <class F>
void up_to_few_rows(const LinearJob& job) {
  static constexpr decltype(&few_rows<F, 1>) kBatches[] = {few_rows<F, 1>, few_rows<F, 2>, few_rows<F, 3>,
                                                           few_rows<F, 4>};
  if (job.x_rows <= 4) return kBatches[job.x_rows - 1](job, job.first_row, job.end_row, 0);
  const uint32_t half = job.x_rows / 2;
  for (uint32_t row = job.first_row; row < job.end_row; row += 16) {
    const uint32_t end = job.end_row - row < 16 ? job.end_row : row + 16;
    kBatches[half - 1](job, row, end, 0);
    kBatches[job.x_rows - half - 1](job, row, end, half);
  }
}

// ------------------------------------------------------------------------------------------ many rows of x

// One unit of a strip of 8 weight rows: codes [parts][2 quads][128]; then for each accumulator row [kW] vectors of
// scales, in a format with mins those, in a super-block [kFactors] times factors and with mins [8] times mins.
template <class F>
struct StripUnit {
  static constexpr uint32_t kVectors = kW * 16;
  static constexpr uint32_t kScales = F::kUnit * kStripRows, kMinScales = kScales + kVectors;
  static constexpr uint32_t kFactors = kMinScales + (F::kMins ? kVectors : 0);
  static constexpr uint32_t kMins = kFactors + (F::kUnit == 32 ? 0 : F::kFactors * kVectors);
  static constexpr uint32_t kBytes = kMins + (F::kUnit != 32 && F::kMins ? 8 * kVectors : 0);
};

template <class F>
uint64_t strip_bytes(uint32_t columns) {
  return uint64_t{columns / F::kUnit} * StripUnit<F>::kBytes;
}

MOTE_INLINE void store_spread(float32x4_t quad, uint8_t* to) {
  float32x4_t vectors[kW / 2];
  spread_w(quad, vectors);
  for (uint32_t a = 0; a < kW / 2; ++a) store_floats(to + a * 16, vectors[a]);
}
MOTE_INLINE void store_spread(int32x4_t quad, uint8_t* to) { store_spread(vreinterpretq_f32_s32(quad), to); }

// The integer scales and mins of a quad of super-blocks.
template <class F>
void spread_integers(const uint8_t* const at[kQuad], uint8_t* to) {
  int32_t factors[kQuad][F::kFactors];
  int16_t mins[kQuad][8];
  for (uint32_t i = 0; i < kQuad; ++i) {
    int32x4_t vectors[F::kFactors / 4];
    F::factors(at[i], vectors);
    __builtin_memcpy(factors[i], vectors, sizeof vectors);
    if constexpr (F::kMins) vst1q_s16(mins[i], F::mins(at[i]));
  }
  using Unit = StripUnit<F>;
  for (uint32_t s = 0; s < F::kFactors; ++s)
    store_spread(int32x4_t{factors[0][s], factors[1][s], factors[2][s], factors[3][s]},
                 to + Unit::kFactors + s * Unit::kVectors);
  if constexpr (F::kMins)
    for (uint32_t p = 0; p < 8; ++p)
      store_spread(int32x4_t{mins[0][p], mins[1][p], mins[2][p], mins[3][p]}, to + Unit::kMins + p * Unit::kVectors);
}

// Rows first .. first + 7; those from `end` on repeat the last one.
template <class F>
void unpack_strip(const LinearJob& job, uint32_t first, uint8_t* strip) {
  using Unit = StripUnit<F>;
  for (uint32_t quad = 0; quad < 2; ++quad) {
    const uint8_t* rows[kQuad];
    for (uint32_t i = 0; i < kQuad; ++i) {
      const uint32_t row = first + quad * kQuad + i;
      rows[i] = job.weights + (row < job.end_row ? row : job.end_row - 1) * job.weight_row_bytes;
    }
    uint8_t* to = strip;
    visit_units(job.columns / F::kUnit, [&](uint32_t u) __attribute__((always_inline)) {
      const size_t offset = size_t{u} * F::kBytes;
      const uint8_t* const at[kQuad] = {rows[0] + offset, rows[1] + offset, rows[2] + offset, rows[3] + offset};
      times<F::kUnit / 32>([&](auto part) __attribute__((always_inline)) {
        constexpr int p = decltype(part)();
        int8x16_t codes[kQuad][2];
#pragma GCC unroll 4
        for (uint32_t i = 0; i < kQuad; ++i) F::template part<p>(at[i], codes[i]);
#pragma GCC unroll 2
        for (uint32_t h = 0; h < 2; ++h) {
          const int8x16_t pieces[kQuad] = {codes[0][h], codes[1][h], codes[2][h], codes[3][h]};
          interleave(pieces, to + p * 256 + quad * 128 + h * 64);
        }
      });
      uint8_t* const vectors = to + quad * (Unit::kVectors / 2);
      store_spread(load_halves(at, F::kScaleAt), vectors + Unit::kScales);
      if constexpr (F::kMins) store_spread(load_halves(at, F::kScaleAt + 2), vectors + Unit::kMinScales);
      if constexpr (F::kUnit != 32) spread_integers<F>(at, vectors);
      to += Unit::kBytes;
    });
  }
}

// body(a, b) for every accumulator of a tile.
template <class Body>
MOTE_INLINE void each(const Body& body) {
  times<kW>([&](auto a) __attribute__((always_inline)) {
    times<kX>([&](auto b) __attribute__((always_inline)) { body(a, b); });
  });
}

// The integers of a super-block: adds to whole what factors times products of codes come to.
template <class F>
MOTE_INLINE void multiply_parts(const uint8_t* strip, const uint8_t* x, int32x4_t whole[kW][kX]) {
  constexpr uint32_t halves = F::kFactors == 16 ? 1 : 2;   // of a part, 16 codes each, that have one factor
  const uint8_t* factors = strip + StripUnit<F>::kFactors;
  for (uint32_t s = 0; s < F::kFactors; ++s, factors += StripUnit<F>::kVectors) {
    int32x4_t dot[kW][kX];
    each([&](auto a, auto b) __attribute__((always_inline)) { dot[a][b] = vdupq_n_s32(0); });
#pragma GCC unroll 2
    for (uint32_t h = 0; h < halves; ++h) {
      const uint32_t half = s * halves + h;
      multiply(strip + half / 2 * 256 + half % 2 * 64, x + half * 64, dot);
    }
    each([&](auto a, auto b) __attribute__((always_inline)) {
      whole[a][b] = vmlaq_s32(whole[a][b], dot[a][b], load_ints(factors + a * 16));
    });
  }
}

template <class F>
MOTE_INLINE void multiply_part_mins(const uint8_t* strip, const uint8_t* x, int32x4_t mins[kW][kX]) {
  for (uint32_t p = 0; p < 8; ++p) {
    int32x4_t sums[kX];
    spread_x(vmovl_s16(vreinterpret_s16_u8(vld1_u8(x + InputQuad<256>::kSums + p * 8))), sums);
    const uint8_t* const at = strip + StripUnit<F>::kMins + p * StripUnit<F>::kVectors;
    each([&](auto a, auto b)
             __attribute__((always_inline)) { mins[a][b] = vmlaq_s32(mins[a][b], load_ints(at + a * 16), sums[b]); });
  }
}

// One unit of a strip with a panel.
template <class F>
MOTE_INLINE void add_unit(const uint8_t* strip, const uint8_t* x, float32x4_t acc[kW][kX]) {
  using Unit = StripUnit<F>;
  using Quad = InputQuad<F::kUnit>;
  float32x4_t scale_x[kX];
  int32x4_t whole[kW][kX];
  each([&](auto a, auto b) __attribute__((always_inline)) { whole[a][b] = vdupq_n_s32(0); });
  if constexpr (F::kUnit == 32) {
    multiply(strip, x, whole);
    multiply(strip + 64, x + 64, whole);
  } else {
    multiply_parts<F>(strip, x, whole);
  }
  spread_x(load_floats(x + Quad::kScales), scale_x);
  each([&](auto a, auto b) __attribute__((always_inline)) {
    const float32x4_t scale = vmulq_f32(load_floats(strip + Unit::kScales + a * 16), scale_x[b]);
    acc[a][b] = vfmaq_f32(acc[a][b], scale, to_floats<F::kFraction>(whole[a][b]));
  });
  if constexpr (F::kMins) {
    float32x4_t value[kW][kX];
    if constexpr (F::kUnit == 32) {
      float32x4_t sums[kX];
      spread_x(load_floats(x + Quad::kSums), sums);
      each([&](auto a, auto b) __attribute__((always_inline)) { value[a][b] = sums[b]; });
    } else {
      each([&](auto a, auto b) __attribute__((always_inline)) { whole[a][b] = vdupq_n_s32(0); });
      multiply_part_mins<F>(strip, x, whole);
      each([&](auto a, auto b) __attribute__((always_inline)) { value[a][b] = vnegq_f32(vcvtq_f32_s32(whole[a][b])); });
    }
    each([&](auto a, auto b) __attribute__((always_inline)) {
      const float32x4_t min = vmulq_f32(load_floats(strip + Unit::kMinScales + a * 16), scale_x[b]);
      acc[a][b] = vfmaq_f32(acc[a][b], min, value[a][b]);
    });
  }
}

// What a tile comes to: lane l of sums[a][b] is the output of weight row weight_row(a, l) and row x_row(b, l) of x.
inline void store_tile(const LinearJob& job, const float32x4_t (*sums)[kX], uint32_t row, uint32_t x_first) {
  for (uint32_t a = 0; a < kW; ++a)
    for (uint32_t b = 0; b < kX; ++b) {
      float lanes[kQuad];
      vst1q_f32(lanes, sums[a][b]);
      for (uint32_t lane = 0; lane < kQuad; ++lane) {
        const uint32_t w = row + weight_row(a, lane), x = x_first + x_row(b, lane);
        if (w >= job.end_row || x >= job.x_rows) continue;
        job.y[x * job.y_columns + w] = job.bias != nullptr ? lanes[lane] + job.bias[w] : lanes[lane];
      }
    }
}

// Four rows of x, `x` their panel, with a strip. The dot products of a block and one partial sum stay in registers.
template <class F>
void multiply_panel(const LinearJob& job, const uint8_t* strip, const uint8_t* x, uint32_t row, uint32_t x_first) {
  const uint32_t units = job.columns / F::kUnit;
  float32x4_t waiting[5][kW][kX];   // for their partner in the fold
  for (uint32_t step = 0; step < kLanes; ++step) {
    float32x4_t acc[kW][kX];
    each([&](auto a, auto b) __attribute__((always_inline)) { acc[a][b] = vdupq_n_f32(0); });
    for (uint32_t u = partial_of_step(step); u < units; u += kLanes) {
      add_unit<F>(strip, x, acc);
      strip += StripUnit<F>::kBytes;
      x += InputQuad<F::kUnit>::kBytes;
    }
    uint32_t level = 0;
    for (; (step >> level & 1) != 0; ++level)
      each([&](auto a, auto b)
               __attribute__((always_inline)) { acc[a][b] = vaddq_f32(waiting[level][a][b], acc[a][b]); });
    each([&](auto a, auto b) __attribute__((always_inline)) { waiting[level][a][b] = acc[a][b]; });
  }
  store_tile(job, waiting[4], row, x_first);
}

template <class F>
void many_rows(const LinearJob& job) {
  uint8_t* const strip = static_cast<uint8_t*>(job.scratch);
  for (uint32_t row = job.first_row; row < job.end_row; row += kStripRows) {
    unpack_strip<F>(job, row, strip);
    const uint8_t* panel = job.input;
    for (uint32_t x = 0; x < job.x_rows; x += kQuad, panel += panel_bytes<F::kUnit>(job.columns))
      multiply_panel<F>(job, strip, panel, row, x);
  }
}

template <class F>
void linear_codes(const LinearJob& job) {
  if (job.x_rows <= kFewRows)
    up_to_few_rows<F>(job);
  else
    many_rows<F>(job);
}

// The kernel of a format; without a specialisation of Codes none.
template <Format format>
constexpr LinearKernel kernel_of() {
  if constexpr (requires { Codes<format>::kUnit; })
    return {linear_codes<Codes<format>>, &kQuadsForm<Codes<format>::kUnit>, strip_bytes<Codes<format>>, kStripRows};
  else
    return {};
}

// The including source's table; a format that is not in the build has no kernel.
constexpr LinearTable kTable = {{
#define MOTE_FORMAT(name, number, values, bytes) MOTE_FORMAT_##name ? kernel_of<Format::name>() : LinearKernel{},
#include "core/format/formats.inc"
#undef MOTE_FORMAT
}};

}   // namespace
}   // namespace mote
