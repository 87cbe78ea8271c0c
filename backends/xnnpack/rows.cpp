// The ops that only fetch or make rows: embed, position_embed, rope_angles, take_rows. XNNPACK has no operator that
// reads a row of GGUF blocks, and nothing is summed here.
#include <cstring>

#include "backends/xnnpack/executor.h"
#include "core/ops/rope_angles.h"

namespace mote {
namespace {

const uint8_t* matrix_row(const Matrix& matrix, uint64_t row) {
  return matrix.data + static_cast<size_t>(row * row_bytes(matrix.format, matrix.columns));
}

}   // namespace

// The session has checked the tokens; one that is outside the matrix is refused here all the same.
Status xnn_run_embed(const StepContext& context) {
  const Matrix& matrix = context.step().matrix;
  float* y = context.output();
  for (size_t row = 0; row < context.batch.tokens.size(); ++row) {
    const int32_t token = context.batch.tokens[row];
    if (token < 0 || static_cast<uint32_t>(token) >= matrix.rows)
      return Status::error(Code::invalid_argument, "token {} is outside {} with its {} rows", token, matrix.name,
                           matrix.rows);
    dequantize_row(matrix.format, matrix_row(matrix, static_cast<uint32_t>(token)), matrix.columns,
                   y + row * matrix.columns);
  }
  return {};
}

Status xnn_run_position_embed(const StepContext& context) {
  const Matrix& matrix = context.step().matrix;
  const float* x = context.input(0);
  float* y = context.output();
  float* embedding = context.session.scratch.rows.data();
  for (size_t row = 0; row < context.batch.tokens.size(); ++row) {
    const uint64_t position = uint64_t{context.batch.first_position} + row;
    if (position >= matrix.rows)
      return Status::error(Code::invalid_argument, "position {} is outside {} with its {} rows", position, matrix.name,
                           matrix.rows);
    dequantize_row(matrix.format, matrix_row(matrix, position), matrix.columns, embedding);
    const size_t at = row * matrix.columns;
    MOTE_RETURN_IF_ERROR(
        run_binary(context.session.shared.add, x + at, embedding, matrix.columns, y + at, matrix.columns, nullptr));
  }
  return {};
}

Status xnn_run_rope_angles(const StepContext& context) {
  float* y = context.output();
  for (size_t row = 0; row < context.batch.tokens.size(); ++row)
    rope_angles_row(context.step().attributes.rope_angles, context.batch.first_position + static_cast<uint32_t>(row),
                    y + row * context.step().output.columns);
  return {};
}

Status xnn_run_take_rows(const StepContext& context) {
  const size_t columns = context.step().output.columns;
  const float* x = context.input(0);
  float* y = context.output();
  for (size_t i = 0; i < context.batch.output_rows.size(); ++i)
    std::memcpy(y + i * columns, x + context.batch.output_rows[i] * columns, columns * sizeof(float));
  return {};
}

}   // namespace mote
