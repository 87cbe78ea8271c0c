// Small functions for loops and kernels: no branches that stop a compiler from vectorising, internal linkage
// throughout (see fma.h).
#pragma once
#include <cstdint>

#include "core/base/fma.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace mote {

// Square root by the machine's instruction, never by a call (gcc would call libm for negative arguments).
static inline double sqrt_f64(double x) {
#if defined(__SSE2__)
  return _mm_cvtsd_f64(_mm_sqrt_sd(_mm_setzero_pd(), _mm_set_sd(x)));
#else
  return __builtin_sqrt(x);
#endif
}
static inline float sqrt_f32(float x) {
#if defined(__SSE2__)
  return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)));
#else
  return __builtin_sqrtf(x);
#endif
}

// To the nearest integer, ties to even; keeps the sign of zero, infinities and NaN. (Adding 2^23 leaves no bits
// below the units.)
static inline float round_to_even_f32(float x) {
  constexpr float kNoFraction = 8388608.0f;   // 2^23
  const float size = x < 0 ? -x : x;
  const float rounded = (size + kNoFraction) - kNoFraction;
  const uint32_t sign = __builtin_bit_cast(uint32_t, x) & 0x80000000u;
  const float result = __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, rounded) | sign);
  return size < kNoFraction ? result : x;
}
static inline double round_to_even_f64(double x) {
  constexpr double kNoFraction = 4503599627370496.0;   // 2^52
  const double size = x < 0 ? -x : x;
  const double rounded = (size + kNoFraction) - kNoFraction;
  const uint64_t sign = __builtin_bit_cast(uint64_t, x) & (uint64_t{1} << 63);
  const double result = __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, rounded) | sign);
  return size < kNoFraction ? result : x;
}

// The same as an integer, for |x| <= 2^22; other arguments, NaN included, give some number but no undefined
// behaviour.
static inline int32_t round_to_int_f32(float x) {
  constexpr float kMagic = 12582912.0f;   // 2^23 + 2^22: the integer lands in the low bits
  return static_cast<int32_t>(__builtin_bit_cast(uint32_t, x + kMagic) - __builtin_bit_cast(uint32_t, kMagic));
}

// 2^x of attention, part of the canonical order: n = x rounded to even, a polynomial of degree 6 in x - n that is
// exactly 1 at 0, then n added to the exponent. Below -115 and for a NaN it is 0, so that p * v stays out of
// underflow and a hidden position is an exact no-op. Relative error below 2e-7. Defined for x <= 127 (attention
// has x <= 0).
static inline float exp2_lane(float x) {
  constexpr float kMagic = 12582912.0f;
  const float shifted = x + kMagic;
  const float r = x - (shifted - kMagic);
  float p = 0.00015453163359779865f;
  p = fma_f32(p, r, 0.0013390863314270973f);
  p = fma_f32(p, r, 0.009618083015084267f);
  p = fma_f32(p, r, 0.055503569543361664f);
  p = fma_f32(p, r, 0.24022650718688965f);
  p = fma_f32(p, r, 0.6931471824645996f);
  p = fma_f32(p, r, 1.0f);
  // n << 23: the constant's own low bits are zero, so shifting the sum leaves n alone.
  const uint32_t exponent = __builtin_bit_cast(uint32_t, shifted) << 23;
  const uint32_t keep = x >= -115.0f ? 0xffffffffu : 0u;
  return __builtin_bit_cast(float, (__builtin_bit_cast(uint32_t, p) + exponent) & keep);
}

// e^x, computed in double and rounded once: correctly rounded in more than 99.99 % of the arguments, at most
// 0.501 ulp off, subnormal results included. exp(-inf) = 0, overflow = inf, NaN = NaN.
static inline float exp_f32(float x) {
  constexpr double kMagic = 6755399441055744.0;   // 2^52 + 2^51
  // Clamped to +-200, far outside float and well inside double. By masks: gcc vectorises no choice between floats.
  const auto bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t over = 0x43480000u - (bits & 0x7fffffffu);     // top bit set: |x| > 200, or a NaN
  const uint32_t number = (bits & 0x7fffffffu) - 0x7f800001u;   // top bit set: not a NaN
  const uint32_t beyond = 0u - ((over & number) >> 31);
  const uint32_t limited = ((0x43480000u | (bits & 0x80000000u)) & beyond) | (bits & ~beyond);
  const double y = static_cast<double>(__builtin_bit_cast(float, limited)) * 0x1.71547652b82fep+0;   // log2(e)
  const double shifted = y + kMagic;
  const double t = (y - (shifted - kMagic)) * 0x1.62e42fefa39efp-1;   // |t| <= ln(2) / 2
  double p = 1.0 / 3628800;                                           // Taylor to degree 10: relative error 2^-42
  p = p * t + 1.0 / 362880;
  p = p * t + 1.0 / 40320;
  p = p * t + 1.0 / 5040;
  p = p * t + 1.0 / 720;
  p = p * t + 1.0 / 120;
  p = p * t + 1.0 / 24;
  p = p * t + 1.0 / 6;
  p = p * t + 0.5;
  p = p * t + 1.0;
  p = p * t + 1.0;
  const uint64_t power = (__builtin_bit_cast(uint64_t, shifted) + 1023) << 52;   // 2^n
  return static_cast<float>(p * __builtin_bit_cast(double, power));
}

// e^x for softmax over a whole vocabulary: relative error below 4e-16 for -708 <= x <= 709; 0 below that; exactly
// 1 at 0. Not for a NaN.
static inline double exp_lane_f64(double x) {
  constexpr double kMagic = 6755399441055744.0;   // 2^52 + 2^51
  const double shifted = x * 0x1.71547652b82fep+0 + kMagic;
  const double n = shifted - kMagic;
  const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;   // ln(2) in two pieces, the first exact
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * (r * r) + r;
  p = 1.0 + p;
  const uint64_t exponent = __builtin_bit_cast(uint64_t, shifted) << 52;
  const uint64_t keep = (__builtin_bit_cast(uint64_t, x + 708.0) >> 63) - 1;   // 0 where x + 708 is negative
  return __builtin_bit_cast(double, (__builtin_bit_cast(uint64_t, p) + exponent) & keep);
}

}   // namespace mote
