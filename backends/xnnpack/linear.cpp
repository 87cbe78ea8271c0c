// linear, on XNNPACK's fully connected operators: f32 on f32, or int8 weights per channel on x as int8 per row.
#include <cstring>
#include <limits>

#include "backends/xnnpack/executor.h"

namespace mote {
namespace {

// Whether XNNPACK can quantise the row: all of it finite, and the span of its values a normal number far from both ends
// of the range. If not, `scale` says what its outputs come to with codes of 0: 0 for tiny ones, else NaN.
bool can_be_quantized(const float* x, size_t count, float* scale) {
  float least = 0, largest = 0, odd = 0;   // odd becomes NaN with the first that is not finite
  for (size_t i = 0; i < count; ++i) {
    least = x[i] < least ? x[i] : least;
    largest = x[i] > largest ? x[i] : largest;
    odd += x[i] - x[i];
  }
  const float span = largest - least;
  *scale = odd == 0 && span < 0x1p-100f ? 0 : std::numeric_limits<float>::quiet_NaN();
  return odd == 0 && span >= 0x1p-100f && span <= std::numeric_limits<float>::max();
}

// x to int8, each row with a scale and a zero point of its own, by XNNPACK's operator: what lies between rows that it
// cannot take at once.
Status quantize_input(const StepContext& context, size_t rows, size_t columns) {
  const SessionScratch& scratch = context.session.scratch;
  const xnn_operator_t op = context.session.shared.quantize;
  const float* x = context.input(0);
  size_t begun = 0;
  for (size_t row = 0; row <= rows; ++row) {
    float scale = 0;
    if (row < rows && can_be_quantized(x + row * columns, columns, &scale)) continue;
    if (row != begun) {
      MOTE_RETURN_IF_XNN_FAILS(xnn_reshape_convert_nc_f32_qd8, op, row - begun, columns, columns, columns,
                               context.pool());
      MOTE_RETURN_IF_XNN_FAILS(xnn_setup_convert_nc_f32_qd8, op, x + begun * columns,
                               scratch.codes.data() + begun * columns, scratch.scales.data() + begun);
      MOTE_RETURN_IF_XNN_FAILS(xnn_run_operator, op, context.pool());
    }
    if (row < rows) {
      std::memset(scratch.codes.data() + row * columns, 0, columns);
      scratch.scales[row] = {0, scale};
    }
    begun = row + 1;
  }
  // A kernel for several rows runs over ones that are not there: they count as the last row again and write to its
  // output, so they need its scale.
  for (size_t i = 0; i < XNN_EXTRA_QUANTIZATION_PARAMS; ++i) scratch.scales[rows + i] = scratch.scales[rows - 1];
  return {};
}

Status run_f32(const StepContext& context, const float* x, size_t rows, float* y) {
  const xnn_operator_t op = context.session.operators[context.index];
  MOTE_RETURN_IF_XNN_FAILS(xnn_reshape_fully_connected_nc_f32, op, rows, context.pool());
  MOTE_RETURN_IF_XNN_FAILS(xnn_setup_fully_connected_nc_f32, op, x, y);
  MOTE_RETURN_IF_XNN_FAILS(xnn_run_operator, op, context.pool());
  return {};
}

Status run_one_row_as_two(const StepContext& context) {
  const Matrix& matrix = context.step().matrix;
  float *two_in = context.session.scratch.two_in.data(), *two_out = context.session.scratch.two_out.data();
  const size_t row_bytes = matrix.columns * sizeof(float);
  std::memcpy(two_in, context.input(0), row_bytes);
  std::memcpy(two_in + matrix.columns, context.input(0), row_bytes);
  MOTE_RETURN_IF_ERROR(run_f32(context, two_in, 2, two_out));
  std::memcpy(context.output(), two_out, matrix.rows * sizeof(float));
  return {};
}

// The library keeps outputs between its bounds, here the infinities, with the processor's minimum and maximum, which on
// older x86 give the bound where the output is a NaN. So a NaN may have become infinite: it becomes one again, or
// broken weights would give text that looks right. A true infinity, a sum beyond f32, goes with it.
void restore_nan(float* y, size_t count) {
  constexpr uint32_t kInfinity = 0x7f800000u, kNan = 0x7fc00000u;
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, y + i, sizeof bits);
    bits = (bits & 0x7fffffffu) == kInfinity ? kNan : bits;
    std::memcpy(y + i, &bits, sizeof bits);
  }
}

Status run_quantized(const StepContext& context, size_t rows) {
  const xnn_operator_t op = context.session.operators[context.index];
  if (!context.prepared.input_quantized)
    MOTE_RETURN_IF_ERROR(quantize_input(context, rows, context.step().matrix.columns));
  MOTE_RETURN_IF_XNN_FAILS(xnn_reshape_fully_connected_nc_qd8_f32_qc8w, op, rows, context.pool());
  MOTE_RETURN_IF_XNN_FAILS(xnn_setup_fully_connected_nc_qd8_f32_qc8w, op, context.session.scratch.codes.data(),
                           context.output(), context.session.scratch.scales.data());
  MOTE_RETURN_IF_XNN_FAILS(xnn_run_operator, op, context.pool());
  return {};
}

}   // namespace

Status xnn_run_linear(const StepContext& context) {
  const size_t rows = context.rows(context.step().output);
  if (rows == 0) return {};
  MOTE_RETURN_IF_ERROR(context.prepared.quantized  ? run_quantized(context, rows)
                       : kOneRowAsTwo && rows == 1 ? run_one_row_as_two(context)
                                                   : run_f32(context, context.input(0), rows, context.output()));
  restore_nan(context.output(), rows * context.step().output.columns);
  return {};
}

}   // namespace mote
