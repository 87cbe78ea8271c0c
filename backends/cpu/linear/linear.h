// y = x matrix^T + bias on GGUF blocks as they lie in the file: what a kernel gets, and the order it keeps.
//
// Canonical order of one output element. The units along K are numbered u = 0, 1, 2, ...
//
//   F32, F16, BF16     unit = one element; weights widened to f32, x in f32
//     partial[u % 16] = fma(w[u], x[u], partial[u % 16])
//   blocks of 32       Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL MXFP4; x as int8 blocks of 32 (`InputForm` below)
//     dot             = sum (code_w - zero) * code_x                                      exact in int32
//     partial[u % 16] = fma(d_w * d_x, f32(dot), partial[u % 16])
//     with a min (Q4_1, Q5_1), right after it: fma(m_w * d_x, f32(sum of code_x), partial[u % 16])
//   super-blocks       Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_XS; x as int8 blocks of 256
//     whole           = sum over sub-blocks j of scale_j * sum (code_w - zero) * code_x   exact in int32
//     partial[u % 16] = fma(d_w * d_x, f32(whole), partial[u % 16])
//     with mins (Q2_K, Q4_K, Q5_K), right after it: fma(dmin_w * d_x, -f32(mins), partial[u % 16]) with
//     mins = sum over sub-blocks j of min_j * sum of code_x in j                          exact in int32
//   y = fold(partial) + bias     partials start at +0; p[i] += p[i + 8], then 4, 2, 1; d_w * d_x is rounded to f32
//
// What code_w - zero, scale_j and d_w are, where the format leaves a choice:
//   Q3_K    code 0..3, less 4 where the high mask bit is clear; scale_j = 6-bit scale - 32
//   Q6_K    zero 32; scale_j signed 8 bits
//   IQ4_NL  code_w - zero = the table's value (-127..113)
//   IQ4_XS  the same table; scale_j = 6-bit scale - 32
//   MXFP4   code_w - zero = twice the E2M1 value (-12..12); d_w = 2^(e - 128), half the block's E8M0 scale;
//           infinite where a value of the block, code times scale, is beyond f32 (e >= 253)
//   Q2_K    scale_j and min_j are the nibbles of the scale byte
// The largest |whole| is 128 * 32 * 127 * 256 < 2^28 (Q6_K), so no integer can overflow, whatever the bytes are.
// Scales that are infinite or NaN give NaN or infinite outputs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/cpu/isa.h"
#include "core/format/format.h"

namespace mote {

// One call: outputs [first_row, end_row) of x_rows rows of x.
struct LinearJob {
  const uint8_t* weights;   // matrix row 0, at any address
  size_t weight_row_bytes;
  uint32_t columns;   // K, a multiple of the format's block values
  uint32_t first_row, end_row;
  uint32_t x_rows;
  const float* x;         // [x_rows, K]; kernels without an input form read this
  const uint8_t* input;   // the others: x in that form, 64-aligned
  const float* bias;      // [rows] or null
  float* y;               // [x_rows, y_columns]
  size_t y_columns;
  void* scratch;   // scratch_bytes(K) of this lane, 64-aligned
};

// The rows of x as int8 blocks of `unit` values. A block's largest magnitude is taken first:
//   infinite or NaN: codes 0, scale NaN       below 2^-100: codes 0, scale 0
//   otherwise        scale = largest / 127; code = x * (127 / largest), rounded to nearest, ties to even
// Codes lie in [-127, 127]. How codes, scales and sums of codes lie in memory is the kernel's own business: a form is
// made for a Value once and read by every `linear` step of the same form.
struct InputJob {
  const float* x;   // [rows, K]
  uint32_t columns, rows;
  uint32_t first_row,
      end_row;      // those to make; first_row a multiple of rows_together, and end_row too unless it is rows
  uint8_t* input;   // of all rows, 64-aligned
};
struct InputForm {
  void (*make)(const InputJob&);
  uint64_t (*bytes)(uint32_t rows, uint32_t columns);   // of all rows; never falls as rows grows
  uint32_t rows_together;
};

// What one source compiled for one instruction set offers for a format.
struct LinearKernel {
  void (*run)(const LinearJob&);   // null: nothing
  const InputForm* form;           // null: it reads x itself
  uint64_t (*scratch_bytes)(uint32_t columns);
  uint32_t rows_together;   // weight rows that are best kept in one call
};

#define MOTE_FORMAT(name, number, values, bytes) +1
inline constexpr uint32_t kFormatCount = 0
#include "core/format/formats.inc"
    ;
#undef MOTE_FORMAT

struct LinearTable {
  LinearKernel by_format[kFormatCount];   // in the order of Format
};

// What one row of kernels.inc becomes.
struct LinearVariant {
  IsaBits required;
  const char* name;
  const LinearTable* table;
};
std::span<const LinearVariant> linear_variants();   // the scalar one first

// The kernel that runs weights of `format`; null if the format is not in this build.
const LinearKernel* choose_linear(Format format, IsaBits available);

}   // namespace mote
