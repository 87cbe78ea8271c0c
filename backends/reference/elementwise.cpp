// activate, gate, add, scale, softcap: element i of the output depends on element i of the inputs alone.
#include "backends/reference/executor.h"
#include "core/base/math.h"

namespace mote {
namespace {

double apply(Activation function, double x) {
  constexpr double kRootTwoOverPi = 0.79788456080286535588, kRootHalf = 0.70710678118654752440;
  switch (function) {
    case Activation::relu:
      return x < 0 ? 0 : x;   // NaN stays
    case Activation::silu:
      return x / (1 + exp_f64(-x));
    case Activation::gelu_tanh:
      return x / 2 * (1 + tanh_f64(kRootTwoOverPi * (x + 0.044715 * x * x * x)));
    case Activation::gelu_erf:
      return x / 2 * (1 + erf_f64(x * kRootHalf));
  }
  return x;
}

}   // namespace

Status ReferenceExecutor::activate(const Step& step, const Batch& batch) {
  const float* x = values_.data(step.inputs[0]);
  float* y = values_.data(step.output);
  for (size_t i = 0; i < elements_of(step.output, batch); ++i)
    y[i] = static_cast<float>(apply(step.attributes.activate.function, x[i]));
  return {};
}

Status ReferenceExecutor::gate(const Step& step, const Batch& batch) {
  const float* g = values_.data(step.inputs[0]);
  const float* u = values_.data(step.inputs[1]);
  float* y = values_.data(step.output);
  for (size_t i = 0; i < elements_of(step.output, batch); ++i)
    y[i] = static_cast<float>(apply(step.attributes.activate.function, g[i]) * u[i]);
  return {};
}

Status ReferenceExecutor::add(const Step& step, const Batch& batch) {
  const float* a = values_.data(step.inputs[0]);
  const float* b = values_.data(step.inputs[1]);
  float* y = values_.data(step.output);
  for (size_t i = 0; i < elements_of(step.output, batch); ++i) y[i] = static_cast<float>(double{a[i]} + b[i]);
  return {};
}

Status ReferenceExecutor::scale(const Step& step, const Batch& batch) {
  const float* x = values_.data(step.inputs[0]);
  float* y = values_.data(step.output);
  for (size_t i = 0; i < elements_of(step.output, batch); ++i)
    y[i] = static_cast<float>(double{step.attributes.scale.factor} * x[i]);
  return {};
}

Status ReferenceExecutor::softcap(const Step& step, const Batch& batch) {
  const double factor = step.attributes.scale.factor;
  const float* x = values_.data(step.inputs[0]);
  float* y = values_.data(step.output);
  for (size_t i = 0; i < elements_of(step.output, batch); ++i)
    y[i] = static_cast<float>(factor * tanh_f64(x[i] / factor));
  return {};
}

}   // namespace mote
