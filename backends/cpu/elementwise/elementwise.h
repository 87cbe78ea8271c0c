// The ops whose elements do not depend on each other, and how each is rounded: in f32 unless said otherwise, every
// operation by itself, no contraction, no fma. exp, tanh and erf are those of core/base/math.h.
//
//   activate  relu       x < 0 ? 0 : x                                              (a NaN stays)
//             silu       x / (1 + exp(-x))
//             gelu_tanh  (0.5 x) * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * ((x * x) * x))))
//             gelu_erf   (0.5 x) * (1 + erf(x * sqrt(1/2)))
//   gate      activate(g) * u
//   add       x0 + x1
//   scale     factor * x
//   softcap   factor * tanh(x / factor) in double (small x would lose bits in the quotient), rounded to f32 once
//   rope      (a, b) -> ((a * cos) - (b * sin), (a * sin) + (b * cos)); other dimensions are copied
#pragma once
#include <cstdint>
#include <span>

#include "backends/cpu/isa.h"
#include "core/ops/step.h"

namespace mote {

// out[i] = f(a[i], b[i]) for i < count; out may be a.
struct ElementwiseJob {
  const float* a;
  const float* b;   // gate, add
  float* out;
  uint64_t count;
  float factor;   // scale, softcap
};
using ElementwiseKernel = void (*)(const ElementwiseJob&);

struct RopeJob {
  const float* x;        // [n_heads, head_dim], one row
  const float* angles;   // [n_rotated]: cos, sin, cos, sin, ...
  float* y;              // may be x
  RopeAttributes attributes;
};

inline constexpr uint32_t kActivationCount = 4;
struct ElementwiseTable {
  ElementwiseKernel activate[kActivationCount], gate[kActivationCount];   // by Activation
  ElementwiseKernel add, scale, softcap;
  void (*rope)(const RopeJob&);
};
struct ElementwiseVariant {
  IsaBits required;
  const char* name;
  const ElementwiseTable* table;
};
std::span<const ElementwiseVariant> elementwise_variants();   // the scalar one first

}   // namespace mote
