// The ops that pick rows: embed, position_embed, take_rows; and pool, which makes one of all.
#include <algorithm>

#include "backends/reference/executor.h"
#include "core/ops/rope_angles.h"

namespace mote {
namespace {

const uint8_t* matrix_row(const Matrix& matrix, size_t row) {
  return matrix.data + row * row_bytes(matrix.format, matrix.columns);
}

}   // namespace

// y[row] = matrix[token[row]] + bias
Status ReferenceExecutor::embed(const Step& step, const Batch& batch) {
  float* y = values_.data(step.output);
  for (size_t row = 0; row < batch.tokens.size(); ++row) {
    const int32_t token = batch.tokens[row];
    if (token < 0 || static_cast<uint32_t>(token) >= step.matrix.rows)
      return Status::error(Code::invalid_argument, "token {} is not one of the {} rows of {}", token, step.matrix.rows,
                           step.matrix.name);
    dequantize_row(step.matrix.format, matrix_row(step.matrix, static_cast<uint32_t>(token)), step.matrix.columns,
                   y + row * step.matrix.columns);
    for (size_t i = 0; i < step.bias.count; ++i)
      y[row * step.matrix.columns + i] =
          static_cast<float>(double{y[row * step.matrix.columns + i]} + double{step.bias.data[i]});
  }
  return {};
}

// y[row] = x[row] + matrix[position[row]], or + sines and cosines of position[row]
Status ReferenceExecutor::position_embed(const Step& step, const Batch& batch) {
  const size_t columns = step.output.columns;
  const float* x = values_.data(step.inputs[0]);
  float* y = values_.data(step.output);
  const bool learned = step.matrix.rows != 0;
  for (size_t row = 0; row < batch.tokens.size(); ++row) {
    const uint64_t position = uint64_t{batch.first_position} + row;
    if (learned && position >= step.matrix.rows)
      return Status::error(Code::context_full, "position {} is not one of the {} rows of {}", position,
                           step.matrix.rows, step.matrix.name);
    if (learned)
      dequantize_row(step.matrix.format, matrix_row(step.matrix, static_cast<size_t>(position)), columns,
                     weights_.data());
    else
      sinusoids_row(step.attributes.position_embed, static_cast<uint32_t>(position), step.output.columns,
                    weights_.data());
    for (size_t i = 0; i < columns; ++i)
      y[row * columns + i] = static_cast<float>(double{x[row * columns + i]} + double{weights_[i]});
  }
  return {};
}

// y[i] = x[output_rows[i]]
Status ReferenceExecutor::take_rows(const Step& step, const Batch& batch) {
  const size_t columns = step.output.columns;
  const float* x = values_.data(step.inputs[0]);
  float* y = values_.data(step.output);
  for (size_t i = 0; i < batch.output_rows.size(); ++i)
    std::copy_n(x + batch.output_rows[i] * columns, columns, y + i * columns);
  return {};
}

// y = the mean of the rows of x, the first, or the last
Status ReferenceExecutor::pool(const Step& step, const Batch& batch) {
  const size_t columns = step.output.columns, rows = rows_of(step.inputs[0], batch);
  const float* x = values_.data(step.inputs[0]);
  float* y = values_.data(step.output);
  const Pooling pooling = step.attributes.pool.pooling;
  if (rows == 0) return {};
  for (size_t i = 0; i < columns; ++i) {
    double sum = 0;
    for (size_t row = 0; row < rows; ++row) sum += double{x[row * columns + i]};
    const float picked = x[(pooling == Pooling::cls ? 0 : rows - 1) * columns + i];
    y[i] = pooling == Pooling::mean ? static_cast<float>(sum / static_cast<double>(rows)) : picked;
  }
  return {};
}

}   // namespace mote
