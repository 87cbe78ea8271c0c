// The elementwise ops in plain loops, included by one source per instruction set. Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/elementwise/elementwise.h"
#include "backends/cpu/kernel_base.h"
#include "core/base/math.h"

namespace mote {
namespace {

template <Activation function>
inline float activate_one(float x) {
  if constexpr (function == Activation::relu) {
    return x < 0 ? 0.0f : x;
  } else if constexpr (function == Activation::silu) {
    return x / (1.0f + exp_f32(-x));
  } else if constexpr (function == Activation::gelu_tanh) {
    constexpr float kRoot = 0.7978845608028654f;   // sqrt(2 / pi)
    const float cubed = (x * x) * x;
    return (0.5f * x) * (1.0f + tanh_f32(kRoot * (x + 0.044715f * cubed)));
  } else {
    constexpr float kHalfRoot = 0.7071067811865476f;   // sqrt(1 / 2)
    return (0.5f * x) * (1.0f + erf_f32(x * kHalfRoot));
  }
}

template <Activation function>
void activate_all(const ElementwiseJob& job) {
  for (uint64_t i = 0; i < job.count; ++i) job.out[i] = activate_one<function>(job.a[i]);
}
template <Activation function>
void gate_all(const ElementwiseJob& job) {
  for (uint64_t i = 0; i < job.count; ++i) job.out[i] = activate_one<function>(job.a[i]) * job.b[i];
}
void add_all(const ElementwiseJob& job) {
  for (uint64_t i = 0; i < job.count; ++i) job.out[i] = job.a[i] + job.b[i];
}
void scale_all(const ElementwiseJob& job) {
  for (uint64_t i = 0; i < job.count; ++i) job.out[i] = job.factor * job.a[i];
}
void softcap_all(const ElementwiseJob& job) {
  const double factor = static_cast<double>(job.factor);
  for (uint64_t i = 0; i < job.count; ++i)
    job.out[i] = static_cast<float>(factor * tanh_f64(static_cast<double>(job.a[i]) / factor));
}

void rope_row(const RopeJob& job) {
  const RopeAttributes& at = job.attributes;
  const uint32_t pairs = at.n_rotated / 2;
  const uint32_t step = at.pairing == RopePairing::neighbours ? 2 : 1;
  const uint32_t apart = at.pairing == RopePairing::neighbours ? 1 : pairs;
  for (uint32_t head = 0; head < at.n_heads; ++head) {
    const float* x = job.x + size_t{head} * at.head_dim;
    float* y = job.y + size_t{head} * at.head_dim;
    for (uint32_t i = 0; i < pairs; ++i) {
      const float cosine = job.angles[2 * i], sine = job.angles[2 * i + 1];
      const float a = x[i * step], b = x[i * step + apart];
      y[i * step] = a * cosine - b * sine;
      y[i * step + apart] = a * sine + b * cosine;
    }
    for (uint32_t i = at.n_rotated; i < at.head_dim; ++i) y[i] = x[i];
  }
}

#define MOTE_CPU_ELEMENTWISE_TABLE                                                                       \
  {{activate_all<Activation::relu>, activate_all<Activation::silu>, activate_all<Activation::gelu_tanh>, \
    activate_all<Activation::gelu_erf>},                                                                 \
   {gate_all<Activation::relu>, gate_all<Activation::silu>, gate_all<Activation::gelu_tanh>,             \
    gate_all<Activation::gelu_erf>},                                                                     \
   add_all,                                                                                              \
   scale_all,                                                                                            \
   softcap_all,                                                                                          \
   rope_row}

}   // namespace
}   // namespace mote
