// The ops that only fetch or make rows: embed, position_embed, rope_angles, take_rows, pool. They have no kernels of
// their own. embed: y = row + bias, each sum rounded by itself. pool by mean: each column is one double that grows by
// the rows in rising order, divided by their number in double and rounded once; the others copy a row.
#include <cstring>
#include <span>

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
  const Vector& bias = prepared.step->bias;
  const std::span<const int32_t> tokens = context.batch.tokens;
  for (const int32_t token : tokens) {
    if (token < 0 || static_cast<uint32_t>(token) >= matrix.rows)
      return Status::error(Code::invalid_argument, "token {} is outside {} with its {} rows", token, matrix.name,
                           matrix.rows);
  }
  float* y = context.output(prepared);
  const uint32_t rows = static_cast<uint32_t>(tokens.size());
  for_rows(context.parallel, rows, uint64_t{matrix.columns} * 30, [&](uint32_t begin, uint32_t end, uint32_t) {
    for (size_t row = begin; row < end; ++row) {
      float* to = y + row * matrix.columns;
      dequantize_row(matrix.format, matrix_row(matrix, static_cast<uint32_t>(tokens[row])), matrix.columns, to);
      for (size_t i = 0; i < bias.count; ++i) to[i] += bias.data[i];
    }
  });
  return {};
}

Status run_position_embed(const PreparedStep& prepared, const RunContext& context) {
  const Matrix& matrix = prepared.step->matrix;
  const uint32_t columns = prepared.step->output.columns;
  const bool learned = matrix.rows != 0;
  const float* x = context.input(prepared, 0);
  float* y = context.output(prepared);
  for (size_t row = 0; row < context.batch.tokens.size(); ++row) {
    const uint64_t position = uint64_t{context.batch.first_position} + row;
    if (learned && position >= matrix.rows)
      return Status::error(Code::invalid_argument, "position {} is outside {} with its {} rows", position, matrix.name,
                           matrix.rows);
    if (learned)
      dequantize_row(matrix.format, matrix_row(matrix, position), columns, context.scratch.row.data());
    else
      sinusoids_row(prepared.step->attributes.position_embed, static_cast<uint32_t>(position), columns,
                    context.scratch.row.data());
    for (size_t i = 0; i < columns; ++i) y[row * columns + i] = x[row * columns + i] + context.scratch.row[i];
  }
  return {};
}

Status run_rope_angles(const PreparedStep& prepared, const RunContext& context) {
  const Step& step = *prepared.step;
  const uint32_t rows = context.rows(step.output), columns = step.output.columns;
  float* y = context.output(prepared);
  for_rows(context.parallel, rows, uint64_t{columns} * 300, [&](uint32_t begin, uint32_t end, uint32_t) {
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

Status run_pool(const PreparedStep& prepared, const RunContext& context) {
  constexpr uint32_t kColumns = 16;   // whose sums are kept at a time
  const Pooling pooling = prepared.step->attributes.pool.pooling;
  const uint32_t rows = context.rows(prepared.step->inputs[0]), columns = prepared.step->output.columns;
  const float* x = context.input(prepared, 0);
  float* y = context.output(prepared);
  if (rows == 0) return {};
  if (pooling != Pooling::mean) {
    std::memcpy(y, x + size_t{pooling == Pooling::cls ? 0 : rows - 1} * columns, size_t{columns} * sizeof(float));
    return {};
  }
  for (uint32_t first = 0; first < columns; first += kColumns) {
    const uint32_t count = columns - first < kColumns ? columns - first : kColumns;
    double sums[kColumns] = {};
    for (size_t row = 0; row < rows; ++row)
      for (uint32_t i = 0; i < count; ++i) sums[i] += static_cast<double>(x[row * columns + first + i]);
    for (uint32_t i = 0; i < count; ++i) y[first + i] = static_cast<float>(sums[i] / rows);
  }
  return {};
}

}   // namespace mote
