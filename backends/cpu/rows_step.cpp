// The ops that only fetch or make rows: embed, position_embed, rope_angles, take_rows. Nothing here is summed, so they
// have no kernels of their own.
#include <cstring>

#include "backends/cpu/step.h"
#include "core/ops/rope_angles.h"

namespace mote {
namespace {

const uint8_t* matrix_row(const Matrix& matrix, uint64_t row) {
  return matrix.data + static_cast<size_t>(row * row_bytes(matrix.format, matrix.columns));
}

}   // namespace

// The session has checked the tokens; one that is outside the matrix is refused here all the same.
Status run_embed(const PreparedStep& prepared, const RunContext& context) {
  const Matrix& matrix = prepared.step->matrix;
  float* y = context.output(prepared);
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

Status run_position_embed(const PreparedStep& prepared, const RunContext& context) {
  const Matrix& matrix = prepared.step->matrix;
  const float* x = context.input(prepared, 0);
  float* y = context.output(prepared);
  for (size_t row = 0; row < context.batch.tokens.size(); ++row) {
    const uint64_t position = uint64_t{context.batch.first_position} + row;
    if (position >= matrix.rows)
      return Status::error(Code::invalid_argument, "position {} is outside {} with its {} rows", position, matrix.name,
                           matrix.rows);
    dequantize_row(matrix.format, matrix_row(matrix, position), matrix.columns, context.scratch.row.data());
    for (size_t i = 0; i < matrix.columns; ++i)
      y[row * matrix.columns + i] = x[row * matrix.columns + i] + context.scratch.row[i];
  }
  return {};
}

Status run_rope_angles(const PreparedStep& prepared, const RunContext& context) {
  const Step& step = *prepared.step;
  const uint32_t rows = context.rows(step.output), columns = step.output.columns;
  float* y = context.output(prepared);
  for_pieces(context.parallel, rows, 8, uint64_t{rows} * columns * 50, [&](uint32_t begin, uint32_t end, uint32_t) {
    for (uint32_t row = begin; row < end; ++row)
      rope_angles_row(step.attributes.rope_angles, context.batch.first_position + row, y + size_t{row} * columns);
  });
  return {};
}

Status run_take_rows(const PreparedStep& prepared, const RunContext& context) {
  const uint32_t columns = prepared.step->output.columns;
  const float* x = context.input(prepared, 0);
  float* y = context.output(prepared);
  for (size_t i = 0; i < context.batch.output_rows.size(); ++i)
    std::memcpy(y + i * columns, x + size_t{context.batch.output_rows[i]} * columns, size_t{columns} * sizeof(float));
  return {};
}

}   // namespace mote
