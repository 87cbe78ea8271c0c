// The form of x of the ARM kernels: quads of blocks of `unit` values, one layout for all formats with that unit.
//   codes [4][unit]; scales [4]; sums of 32 codes, which formats with mins want: f32 [4] where unit is 32, int16 else.
// Up to kFewRows rows: row by row four units of it, sums [4 units][parts]; the last quad is filled up with zeros.
// More rows: panels of four rows, the last one filled up with zeros, in a panel units in visiting order; codes
// interleaved for the tile, sums [parts][4 rows]. Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/linear.h"
#include "backends/cpu/linear/neon.h"

namespace mote {
namespace {

template <uint32_t unit>
struct InputQuad {
  static constexpr uint32_t kParts = unit / 32;
  static constexpr uint32_t kScales = 4 * unit, kSums = kScales + 16;   // where they begin
  static constexpr uint32_t kBytes = kSums + (unit == 32 ? 16 : 8 * kParts);
};

template <uint32_t unit>
inline size_t few_rows_bytes(uint32_t rows, uint32_t columns) {
  return size_t{rows} * ((columns / unit + kQuad - 1) / kQuad) * InputQuad<unit>::kBytes;
}
template <uint32_t unit>
inline size_t panel_bytes(uint32_t columns) {
  return size_t{columns / unit} * InputQuad<unit>::kBytes;
}
template <uint32_t unit>
uint64_t quads_form_bytes(uint32_t rows, uint32_t columns) {
  const uint64_t few = few_rows_bytes<unit>(rows < kFewRows ? rows : kFewRows, columns);
  const uint64_t panels = uint64_t{(rows + kQuad - 1) / kQuad} * panel_bytes<unit>(columns);
  return rows <= kFewRows || few > panels ? few : panels;
}

// By the rules of linear.h; returns the scale.
template <uint32_t unit>
float quantize_unit(const float* x, uint8_t* codes, int16_t* sums) {
  uint32x4_t tops = vdupq_n_u32(0);   // the bits of |x| rise with |x|; infinity and NaN are above all
  for (uint32_t i = 0; i < unit; i += 4) tops = vmaxq_u32(tops, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + i))));
  const uint32_t top = vmaxvq_u32(tops);
  const float largest = bits_as<float>(top);
  if (top >= 0x7f800000u || largest < 0x1p-100f) {
    __builtin_memset(codes, 0, unit);
    __builtin_memset(sums, 0, unit / 32 * sizeof *sums);
    return top >= 0x7f800000u ? bits_as<float>(0x7fc00000u) : 0.0f;
  }
  const float inverse = 127.0f / largest;
  const auto four = [&](uint32_t i) { return vmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i), inverse))); };
  const auto eight = [&](uint32_t i) { return vmovn_s16(vcombine_s16(four(i), four(i + 4))); };
  for (uint32_t i = 0; i < unit; i += 32) {
    const int8x16_t low = vcombine_s8(eight(i), eight(i + 8)), high = vcombine_s8(eight(i + 16), eight(i + 24));
    vst1q_u8(codes + i, vreinterpretq_u8_s8(low));
    vst1q_u8(codes + i + 16, vreinterpretq_u8_s8(high));
    sums[i / 32] = static_cast<int16_t>(vaddlvq_s8(low) + vaddlvq_s8(high));
  }
  return largest / 127.0f;
}

// One quad of the units at from[i], null for none.
template <uint32_t unit, bool panel>
void make_quad(const float* const from[kQuad], uint8_t* to) {
  using Quad = InputQuad<unit>;
  uint8_t codes[kQuad][unit];
  int16_t sums[kQuad][Quad::kParts] = {};
  float scales[kQuad] = {};
  for (uint32_t i = 0; i < kQuad; ++i) {
    if (from[i] != nullptr)
      scales[i] = quantize_unit<unit>(from[i], codes[i], sums[i]);
    else
      __builtin_memset(codes[i], 0, unit);
  }
  if constexpr (panel) {
    for (uint32_t at = 0; at < unit; at += 16) {
      const int8x16_t pieces[kQuad] = {load_codes(codes[0] + at), load_codes(codes[1] + at), load_codes(codes[2] + at),
                                       load_codes(codes[3] + at)};
      interleave(pieces, to + kQuad * at);
    }
  } else {
    __builtin_memcpy(to, codes, sizeof codes);
  }
  __builtin_memcpy(to + Quad::kScales, scales, sizeof scales);
  if constexpr (unit == 32) {
    const float whole[kQuad] = {static_cast<float>(sums[0][0]), static_cast<float>(sums[1][0]),
                                static_cast<float>(sums[2][0]), static_cast<float>(sums[3][0])};
    __builtin_memcpy(to + Quad::kSums, whole, sizeof whole);
  } else if constexpr (panel) {
    for (uint32_t p = 0; p < Quad::kParts; ++p)
      for (uint32_t i = 0; i < kQuad; ++i) __builtin_memcpy(to + Quad::kSums + 8 * p + 2 * i, &sums[i][p], 2);
  } else {
    __builtin_memcpy(to + Quad::kSums, sums, sizeof sums);
  }
}

template <uint32_t unit>
void make_few_rows(const InputJob& job) {
  const uint32_t units = job.columns / unit;
  uint8_t* to = job.input + few_rows_bytes<unit>(job.first_row, job.columns);
  for (uint32_t row = job.first_row; row < job.end_row; ++row) {
    const float* const x = job.x + size_t{row} * job.columns;
    for (uint32_t u = 0; u < units; u += kQuad, to += InputQuad<unit>::kBytes) {
      const float* from[kQuad];
      for (uint32_t i = 0; i < kQuad; ++i) from[i] = u + i < units ? x + size_t{u + i} * unit : nullptr;
      make_quad<unit, false>(from, to);
    }
  }
}

template <uint32_t unit>
void make_panels(const InputJob& job) {
  uint8_t* to = job.input + job.first_row / kQuad * panel_bytes<unit>(job.columns);
  for (uint32_t first = job.first_row; first < job.end_row; first += kQuad)
    visit_units(job.columns / unit, [&](uint32_t u) {
      const float* from[kQuad];
      for (uint32_t i = 0; i < kQuad; ++i)
        from[i] = first + i < job.rows ? job.x + size_t{first + i} * job.columns + size_t{u} * unit : nullptr;
      make_quad<unit, true>(from, to);
      to += InputQuad<unit>::kBytes;
    });
}

template <uint32_t unit>
void make_quads(const InputJob& job) {
  if (job.rows <= kFewRows)
    make_few_rows<unit>(job);
  else
    make_panels<unit>(job);
}

template <uint32_t unit>
constexpr InputForm kQuadsForm = {make_quads<unit>, quads_form_bytes<unit>, kQuad};

}   // namespace
}   // namespace mote
