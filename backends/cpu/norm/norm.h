// rms_norm and layer_norm of one row, and the order they keep. All in f32.
//
//   lanes   s[i % 16] = fma(x[i], x[i], s[i % 16]) in rising i from +0; total = fold(s): s[i] += s[i + 8], 4, 2, 1
//   rms_norm    scale = 1 / sqrt(total / n + epsilon);  y[i] = (x[i] * scale) * weight[i]
//   layer_norm  t[i % 16] += x[i] in rising i, mean = fold(t) / n;  d[i] = x[i] - mean;
//               s[i % 16] = fma(d[i], d[i], s[i % 16]);  scale = 1 / sqrt(fold(s) / n + epsilon)
//               y[i] = (d[i] * scale) * weight[i] + bias[i]
// Each product, sum, quotient and root is rounded by itself. A missing weight or bias leaves its operation out.
#pragma once
#include <cstdint>
#include <span>

#include "backends/cpu/isa.h"

namespace mote {

struct NormJob {
  const float* x;        // [count]
  const float* weight;   // [count] or null
  const float* bias;     // [count] or null; layer_norm only
  float* y;              // [count], may be x
  uint32_t count;        // at least 1
  float epsilon;
};

struct NormTable {
  void (*rms_norm)(const NormJob&);
  void (*layer_norm)(const NormJob&);
};
struct NormVariant {
  IsaBits required;
  const char* name;
  const NormTable* table;
};
std::span<const NormVariant> norm_variants();   // the scalar one first

}   // namespace mote
