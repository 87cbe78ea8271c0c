// The one way in which 16 partial sums become one number (the canonical order: see backends/cpu/README.md).
#pragma once

namespace mote {

inline constexpr int kPartials = 16;

// Folds by halves: p[i] += p[i + 8] for i < 8, then + 4, + 2, + 1. `partials` [16] is overwritten. Internal
// linkage, since kernel files for newer instruction sets use it too.
static inline float fold16(float* partials) {
  for (int i = 0; i < 8; ++i) partials[i] += partials[i + 8];
  for (int i = 0; i < 4; ++i) partials[i] += partials[i + 4];
  return (partials[0] + partials[2]) + (partials[1] + partials[3]);
}
static inline double fold16(double* partials) {
  for (int i = 0; i < 8; ++i) partials[i] += partials[i + 8];
  for (int i = 0; i < 4; ++i) partials[i] += partials[i + 4];
  return (partials[0] + partials[2]) + (partials[1] + partials[3]);
}

}   // namespace mote
