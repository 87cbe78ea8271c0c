// rms_norm. XNNPACK has no operator for it in this version; four of its operators (square, mean, reciprocal root, two
// products) would pass over the row five times, and round the root less well. So it is ours:
//   total = sum of x[i]^2 in double, 8 sums by i % 8, folded by halves
//   y[i] = x[i] * (1 / sqrt(total / n + epsilon)) * weight[i], in double, rounded once
#include "backends/xnnpack/executor.h"
#include "core/base/math_lanes.h"

namespace mote {
namespace {

void norm_row(const float* x, const Vector& weight, float epsilon, size_t count, float* y) {
  constexpr size_t kSums = 8;
  double sums[kSums] = {};
  size_t i = 0;
  for (; i + kSums <= count; i += kSums)
    for (size_t j = 0; j < kSums; ++j) sums[j] += double{x[i + j]} * x[i + j];
  for (; i < count; ++i) sums[i % kSums] += double{x[i]} * x[i];
  for (size_t half = kSums / 2; half != 0; half /= 2)
    for (size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  const double scale = 1 / sqrt_f64(sums[0] / static_cast<double>(count) + double{epsilon});
  for (i = 0; i < count; ++i) {
    const double factor = weight.data == nullptr ? scale : scale * double{weight.data[i]};
    y[i] = static_cast<float>(x[i] * factor);
  }
}

}   // namespace

Status xnn_run_rms_norm(const StepContext& context) {
  const Step& step = context.step();
  const size_t columns = norm_width(step), rows = context.rows(step.output) * (step.output.columns / columns);
  const float* x = context.input(0);
  float* y = context.output();
  const Parallel& parallel = context.session.pool.parallel;
  const auto norm = [&](size_t row) {
    norm_row(x + row * columns, step.vector, step.attributes.norm.epsilon, columns, y + row * columns);
  };
  if (rows * columns < 32768) {   // less than a region is worth
    for (size_t row = 0; row < rows; ++row) norm(row);
    return {};
  }
  parallel.region([&](uint32_t lane) {
    for (size_t row = lane; row < rows; row += parallel.lanes) norm(row);
  });
  return {};
}

}   // namespace mote
