// rms_norm and layer_norm, row by row.
#include <cmath>

#include "backends/reference/executor.h"

namespace mote {

// y = x / sqrt(mean(x^2) + epsilon) * vector
Status ReferenceExecutor::rms_norm(const Step& step, const Batch& batch) {
  const size_t columns = norm_width(step), groups = step.output.columns / columns;
  for (size_t row = 0; row < rows_of(step.output, batch) * groups; ++row) {
    const float* x = values_.data(step.inputs[0]) + row * columns;
    float* y = values_.data(step.output) + row * columns;
    double sum = 0;
    for (size_t i = 0; i < columns; ++i) sum += double{x[i]} * x[i];
    const double root = std::sqrt(sum / static_cast<double>(columns) + double{step.attributes.norm.epsilon});
    for (size_t i = 0; i < columns; ++i) y[i] = static_cast<float>(x[i] / root * step.vector.data[i]);
  }
  return {};
}

// y = (x - mean) / sqrt(variance + epsilon) * vector + bias
Status ReferenceExecutor::layer_norm(const Step& step, const Batch& batch) {
  const size_t columns = step.output.columns;
  const double n = static_cast<double>(columns);
  for (size_t row = 0; row < rows_of(step.output, batch); ++row) {
    const float* x = values_.data(step.inputs[0]) + row * columns;
    float* y = values_.data(step.output) + row * columns;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < columns; ++i) sum += double{x[i]};
    const double mean = sum / n;
    for (size_t i = 0; i < columns; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double root = std::sqrt(squares / n + double{step.attributes.norm.epsilon});
    for (size_t i = 0; i < columns; ++i) {
      const double bias = step.bias.exists() ? double{step.bias.data[i]} : 0.0;
      y[i] = static_cast<float>((x[i] - mean) / root * step.vector.data[i] + bias);
    }
  }
  return {};
}

}   // namespace mote
