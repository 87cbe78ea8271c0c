// The kernels of `linear` and of the quantisation of its input, in plain loops. Included by one source per
// instruction set (linear_scalar.cpp, linear_avx2.cpp), which compiles them with its own flags: the loops are written
// so that compilers turn them into vectors (16-bit multiply-add, 16 lanes), and the order of linear.h is kept because
// the order is in the source.
//
// A panel of four weight rows is unpacked once and multiplied with all rows of x. Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/linear.h"
#include "backends/cpu/linear/unpack.h"

namespace mote {
namespace {

constexpr uint32_t kPanelRows = 4;        // weight rows unpacked at a time
constexpr uint32_t kPanelValues = 4096;   // of each: a whole number of 16 units, for every unit
constexpr uint32_t kPanelFloats = 2048;
constexpr uint32_t kXRows = 32;   // rows of x whose partial sums are kept when a row takes several panels

struct IntegerPanel {
  int16_t codes[kPanelRows][kPanelValues];
  float scales[kPanelRows][kPanelValues / 32];
  float min_scales[kPanelRows][kPanelValues / 32];
  int16_t mins[kPanelRows][kPanelValues / 256][kLanes];
  uint16_t halves[2][kPanelValues / 32];
};
struct FloatPanel {
  float values[kPanelRows][kPanelFloats];
};
struct LinearScratch {
  union {
    IntegerPanel integers;
    FloatPanel floats;
  } panel;
  float partial[kXRows][kPanelRows][kLanes];
};
uint64_t panel_scratch_bytes(uint32_t /*columns*/) { return sizeof(LinearScratch); }

// ------------------------------------------------------------------------------------------ the input

// The form of these kernels: int8 codes kept in 16 bits [rows, K], scales [rows, K / unit], sums of 16 codes each
// [rows, K / 16].
struct Codes {
  int16_t* codes;
  float* scales;
  int16_t* sums;
};

constexpr uint64_t to_line(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

template <uint32_t unit>
uint64_t codes_bytes(uint32_t rows, uint32_t columns) {
  const uint64_t count = uint64_t{rows} * columns;
  return to_line(count * 2) + to_line(count / unit * 4) + to_line(count / 16 * 2);
}

template <uint32_t unit>
inline Codes place_codes(uint8_t* input, uint32_t rows, uint32_t columns) {
  const uint64_t count = uint64_t{rows} * columns;
  uint8_t* scales = input + to_line(count * 2);
  uint8_t* sums = scales + to_line(count / unit * 4);
  return {reinterpret_cast<int16_t*>(input), reinterpret_cast<float*>(scales), reinterpret_cast<int16_t*>(sums)};
}

inline void quantize_block(const float* x, uint32_t unit, int16_t* codes, float* scale) {
  int32_t top = 0;   // the bits of |x| rise with |x|; infinity and NaN are above all
  for (uint32_t i = 0; i < unit; ++i) {
    const int32_t magnitude = static_cast<int32_t>(bits_as<uint32_t>(x[i]) & 0x7fffffffu);
    top = magnitude > top ? magnitude : top;
  }
  const float largest = bits_as<float>(static_cast<uint32_t>(top));
  if (top >= 0x7f800000 || largest < 0x1p-100f) {
    *scale = top >= 0x7f800000 ? bits_as<float>(0x7fc00000u) : 0.0f;
    for (uint32_t i = 0; i < unit; ++i) codes[i] = 0;
    return;
  }
  *scale = largest / 127.0f;
  const float inverse = 127.0f / largest;
  for (uint32_t i = 0; i < unit; ++i) codes[i] = static_cast<int16_t>(round_to_int_f32(x[i] * inverse));
}

template <uint32_t unit>
void make_codes(const InputJob& job) {
  const Codes to = place_codes<unit>(job.input, job.rows, job.columns);
  const size_t end = size_t{job.end_row} * job.columns;
  for (size_t at = size_t{job.first_row} * job.columns; at < end; at += unit)
    quantize_block(job.x + at, unit, to.codes + at, to.scales + at / unit);
  for (size_t j = size_t{job.first_row} * job.columns / 16; j < end / 16; ++j) {
    int sum = 0;
    for (uint32_t i = 0; i < 16; ++i) sum += to.codes[j * 16 + i];
    to.sums[j] = static_cast<int16_t>(sum);
  }
}

// ------------------------------------------------------------------------------------------ blocks

template <class F>
void unpack_panel(const LinearJob& job, uint32_t row, uint32_t rows, uint32_t first, uint32_t units,
                  IntegerPanel& panel) {
  for (uint32_t r = 0; r < rows; ++r) {
    const uint8_t* block = job.weights + (row + r) * job.weight_row_bytes + size_t{first} * F::kBytes;
    for (uint32_t u = 0; u < units; ++u, block += F::kBytes) {
      F::unpack(block, panel.codes[r] + u * F::kUnit, panel.mins[r][F::kUnit == 256 ? u : 0]);
      if constexpr (F::kHalfScale)
        panel.halves[0][u] = F::scale16(block);
      else
        panel.scales[r][u] = F::scale(block);
      if constexpr (F::kMins != Mins::none) panel.halves[1][u] = F::min16(block);
    }
    if constexpr (F::kHalfScale) halves_to_floats(panel.halves[0], units, panel.scales[r]);
    if constexpr (F::kMins != Mins::none) halves_to_floats(panel.halves[1], units, panel.min_scales[r]);
  }
}

template <uint32_t count>
inline int32_t dot_exact(const int16_t* a, const int16_t* b) {
  int32_t sum = 0;
  for (uint32_t i = 0; i < count; ++i) sum += static_cast<int32_t>(a[i]) * static_cast<int32_t>(b[i]);
  return sum;
}

// partial[i] = fma(w_scale[i] * x_scale[i], value[i], partial[i]) for `count` units of a group of 16.
inline void add_units(float* partial, const float* w_scale, const float* x_scale, const float* value, uint32_t count) {
  float scale[kLanes];
  if (count == kLanes) {
    for (uint32_t i = 0; i < kLanes; ++i) scale[i] = w_scale[i] * x_scale[i];
    fma_lanes(partial, scale, value);
  } else {
    for (uint32_t i = 0; i < count; ++i) partial[i] = fma_f32(w_scale[i] * x_scale[i], value[i], partial[i]);
  }
}

// One row of x with one row of the panel. Not inlined: formats of one kind share it.
template <uint32_t unit, Mins mins>
__attribute__((noinline)) void multiply_row(const IntegerPanel& panel, uint32_t r, uint32_t units, const int16_t* codes,
                                            const float* scales, const int16_t* sums, float* partial) {
  for (uint32_t u = 0; u < units; u += kLanes) {
    const uint32_t count = units - u < kLanes ? units - u : kLanes;
    float value[kLanes];
    int32_t dot[kLanes];
    for (uint32_t i = 0; i < count; ++i)
      dot[i] = dot_exact<unit>(panel.codes[r] + (u + i) * unit, codes + (u + i) * unit);
    for (uint32_t i = 0; i < count; ++i) value[i] = static_cast<float>(dot[i]);
    add_units(partial, panel.scales[r] + u, scales + u, value, count);
    if constexpr (mins == Mins::added) {
      for (uint32_t i = 0; i < count; ++i) value[i] = static_cast<float>(sums[2 * (u + i)] + sums[2 * (u + i) + 1]);
      add_units(partial, panel.min_scales[r] + u, scales + u, value, count);
    } else if constexpr (mins == Mins::subtracted) {
      for (uint32_t i = 0; i < count; ++i) dot[i] = dot_exact<16>(panel.mins[r][u + i], sums + (u + i) * 16);
      for (uint32_t i = 0; i < count; ++i) value[i] = -static_cast<float>(dot[i]);
      add_units(partial, panel.min_scales[r] + u, scales + u, value, count);
    }
  }
}

inline void store_outputs(const LinearJob& job, uint32_t row, uint32_t rows, uint32_t x, float (*partial)[kLanes]) {
  for (uint32_t r = 0; r < rows; ++r) {
    const float sum = fold16(partial[r]);
    job.y[x * job.y_columns + row + r] = job.bias != nullptr ? sum + job.bias[row + r] : sum;
  }
}

template <class F>
void linear_blocks(const LinearJob& job) {
  LinearScratch& scratch = *static_cast<LinearScratch*>(job.scratch);
  const uint32_t units = job.columns / F::kUnit, panel_units = kPanelValues / F::kUnit, sums = job.columns / 16;
  const Codes input = place_codes<F::kUnit>(const_cast<uint8_t*>(job.input), job.x_rows, job.columns);
  for (uint32_t row = job.first_row; row < job.end_row; row += kPanelRows) {
    const uint32_t rows = job.end_row - row < kPanelRows ? job.end_row - row : kPanelRows;
    for (uint32_t x0 = 0; x0 < job.x_rows; x0 += kXRows) {
      const uint32_t x_rows = job.x_rows - x0 < kXRows ? job.x_rows - x0 : kXRows;
      __builtin_memset(scratch.partial, 0, x_rows * sizeof scratch.partial[0]);
      for (uint32_t first = 0; first < units; first += panel_units) {
        const uint32_t count = units - first < panel_units ? units - first : panel_units;
        if (x0 == 0 || units > panel_units) unpack_panel<F>(job, row, rows, first, count, scratch.panel.integers);
        for (uint32_t x = 0; x < x_rows; ++x) {
          const int16_t* codes = input.codes + size_t{x0 + x} * job.columns + first * F::kUnit;
          const float* scales = input.scales + size_t{x0 + x} * units + first;
          const int16_t* row_sums = input.sums + size_t{x0 + x} * sums + first * (F::kUnit / 16);
          for (uint32_t r = 0; r < rows; ++r)
            multiply_row<F::kUnit, F::kMins>(scratch.panel.integers, r, count, codes, scales, row_sums,
                                             scratch.partial[x][r]);
        }
      }
      for (uint32_t x = 0; x < x_rows; ++x) store_outputs(job, row, rows, x0 + x, scratch.partial[x]);
    }
  }
}

// ------------------------------------------------------------------------------------------ single elements

// Not inlined: the three formats share it.
__attribute__((noinline)) void multiply_elements(const float* w, const float* x, uint32_t count, float* partial) {
  float lanes[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) lanes[i] = partial[i];
  uint32_t u = 0;
  for (; u + kLanes <= count; u += kLanes) fma_lanes(lanes, w + u, x + u);
  for (uint32_t i = 0; u + i < count; ++i) lanes[i] = fma_f32(w[u + i], x[u + i], lanes[i]);
  for (uint32_t i = 0; i < kLanes; ++i) partial[i] = lanes[i];
}

template <class F>
void linear_elements(const LinearJob& job) {
  LinearScratch& scratch = *static_cast<LinearScratch*>(job.scratch);
  for (uint32_t row = job.first_row; row < job.end_row; row += kPanelRows) {
    const uint32_t rows = job.end_row - row < kPanelRows ? job.end_row - row : kPanelRows;
    for (uint32_t x0 = 0; x0 < job.x_rows; x0 += kXRows) {
      const uint32_t x_rows = job.x_rows - x0 < kXRows ? job.x_rows - x0 : kXRows;
      __builtin_memset(scratch.partial, 0, x_rows * sizeof scratch.partial[0]);
      for (uint32_t first = 0; first < job.columns; first += kPanelFloats) {
        const uint32_t count = job.columns - first < kPanelFloats ? job.columns - first : kPanelFloats;
        for (uint32_t r = 0; r < rows && (x0 == 0 || job.columns > kPanelFloats); ++r)
          F::unpack(job.weights + (row + r) * job.weight_row_bytes + size_t{first} * F::kBytes, count,
                    scratch.panel.floats.values[r]);
        for (uint32_t x = 0; x < x_rows; ++x) {
          const float* values = job.x + size_t{x0 + x} * job.columns + first;
          for (uint32_t r = 0; r < rows; ++r) {
            multiply_elements(scratch.panel.floats.values[r], values, count, scratch.partial[x][r]);
          }
        }
      }
      for (uint32_t x = 0; x < x_rows; ++x) store_outputs(job, row, rows, x0 + x, scratch.partial[x]);
    }
  }
}

}   // namespace
}   // namespace mote
