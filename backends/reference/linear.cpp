// linear: y[row, out] = sum over k of x[row, k] * matrix[out, k], k rising, + bias[out].
//
// Every sum is one double that grows in the order of k. Sixteen rows of x are taken together, turned so that they lie
// beside each other, because then a weight row is dequantised once for all of them; the lanes share the output rows.
#include <algorithm>

#include "backends/reference/executor.h"

namespace mote {

Status ReferenceExecutor::linear(const Step& step, const Batch& batch) {
  const size_t rows = rows_of(step.output, batch);
  const float* x = values_.data(step.inputs[0]);
  float* y = values_.data(step.output);
  for (size_t first = 0; first < rows; first += kGroup) {
    const uint32_t group = static_cast<uint32_t>(std::min<size_t>(kGroup, rows - first));
    linear_group(step, x + first * step.matrix.columns, y + first * step.matrix.rows, group);
  }
  return {};
}

namespace {

// sums[row] = sum over k of w[k] * x[k, row]; `group` is 16 or 1, known to the compiler.
template <uint32_t group>
void dot_products(const float* w, const double* x, size_t columns, double* sums) {
  double sum[group] = {};
  for (size_t k = 0; k < columns; ++k) {
    const double weight = w[k];
    for (uint32_t row = 0; row < group; ++row) sum[row] += weight * x[k * group + row];
  }
  std::copy_n(sum, group, sums);
}

}   // namespace

void ReferenceExecutor::linear_group(const Step& step, const float* x, float* y, uint32_t rows) {
  const Matrix& matrix = step.matrix;
  const size_t columns = matrix.columns, out = matrix.rows;
  const auto bytes = static_cast<size_t>(row_bytes(matrix.format, columns));
  const uint32_t width = rows == 1 ? 1 : kGroup;   // rows beyond the batch are zeros
  for (size_t k = 0; k < columns; ++k) {
    for (uint32_t row = 0; row < width; ++row) transposed_[k * width + row] = row < rows ? x[row * columns + k] : 0.0F;
  }
  parallel_.region([&](uint32_t lane) {
    float* weights = &weights_[size_t{lane} * max_columns_];
    const size_t begin = out * lane / parallel_.lanes, end = out * (lane + 1) / parallel_.lanes;
    for (size_t o = begin; o < end; ++o) {
      double sums[kGroup];
      dequantize_row(matrix.format, matrix.data + o * bytes, columns, weights);
      if (width == 1) {
        dot_products<1>(weights, transposed_.data(), columns, sums);
      } else {
        dot_products<kGroup>(weights, transposed_.data(), columns, sums);
      }
      const double bias = step.bias.exists() ? double{step.bias.data[o]} : 0.0;
      for (uint32_t row = 0; row < rows; ++row) y[row * out + o] = static_cast<float>(sums[row] + bias);
    }
  });
}

}   // namespace mote
