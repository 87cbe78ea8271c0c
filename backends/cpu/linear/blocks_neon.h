// `linear` on blocks and super-blocks by ARM's 8-bit dot product or matrix product, in the two shapes that neon.h
// describes. Included by files compiled with +dotprod at least. Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/block_codes_neon.h"
#include "backends/cpu/linear/blocks_input_neon.h"
#include "mote_build.h"
#if defined(__ARM_FEATURE_MATMUL_INT8)
namespace mote {
extern const LinearTable linear_dotprod;
}
#else
#include "backends/cpu/linear/few_rows_neon.h"
#endif

namespace mote {
namespace {

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

template <Format format>
void linear_codes(const LinearJob& job) {
  if (job.x_rows > kFewRows) return many_rows<Codes<format>>(job);
#if defined(__ARM_FEATURE_MATMUL_INT8)
  linear_dotprod.by_format[static_cast<uint8_t>(format)].run(job);   // half of each matrix product would be for nothing
#else
  few_rows<Codes<format>>(job);
#endif
}

// The kernel of a format; without a specialisation of Codes none.
template <Format format>
constexpr LinearKernel kernel_of() {
  if constexpr (requires { Codes<format>::kUnit; })
    return {linear_codes<format>, &kQuadsForm<Codes<format>::kUnit>, strip_bytes<Codes<format>>, kStripRows};
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
