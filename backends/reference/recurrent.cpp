// rnn: h = tanh(x[row] + matrix h), y[row] = h.
#include "backends/reference/executor.h"
#include "core/base/math.h"

namespace mote {

// Every position keeps its vector, so a sequence goes back to any. Before position 0 it is 0.
Status ReferenceExecutor::rnn(const Step& step, const Batch& batch) {
  const Matrix& matrix = step.matrix;
  const size_t columns = step.output.columns;
  const auto bytes = static_cast<size_t>(row_bytes(matrix.format, columns));
  const float* x = values_.data(step.inputs[0]);
  float* y = values_.data(step.output);
  for (uint32_t row = 0; row < batch.tokens.size(); ++row) {
    const uint32_t position = batch.first_position + row;
    const float* before = position == 0 ? nullptr : state_row(step.state, position - 1);
    float* h = state_row(step.state, position);
    bool has_nan = false;
    for (size_t i = 0; i < columns; ++i) {
      dequantize_row(matrix.format, matrix.data + i * bytes, columns, weights_.data());
      double sum = 0;
      for (size_t k = 0; k < columns; ++k) sum += double{weights_[k]} * (before == nullptr ? 0.0 : double{before[k]});
      h[i] = static_cast<float>(tanh_f64(sum + double{x[row * columns + i]}));
      y[row * columns + i] = h[i];
      has_nan = has_nan || h[i] != h[i];
    }
    if (has_nan) first_nan_.note(position, step);
  }
  return {};
}

}   // namespace mote
