// exp_f32, tanh_f32, erf_f32 and soft caps of a block of numbers: the same bits, many times as fast.
//
// Each is computed quickly first, in double with an error known to be below 2^-39 of the result. Where that double is
// so far from the middle between two floats that no such error matters, it rounds to the very float that the function
// of math.h gives, whose own error is smaller still. The others, about one number in 8000, are done again by that
// function. So the quick part may use whatever operations a processor has (here: fma where there is one) and leaves no
// trace in the result. Internal linkage throughout (see fma.h); plain loops that compilers turn into vectors.
#pragma once
#include <cstdint>

#include "core/base/math.h"

namespace mote {

inline constexpr uint32_t kMathBlock = 128;   // what is asked and looked through at once

// a * b + c, rounded once or twice: for what is only nearly right.
static inline double nearly_fma(double a, double b, double c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

// e^x = power * (1 + r * p) with |r| <= ln(2) / 2; p = (e^r - 1) / r to 2^-43, by Chebyshev interpolation (this and the
// other numbers here: math_coefficients.py).
struct NearlyExp {
  double power, r, p;
};
// For |x| <= 120.
static inline NearlyExp nearly_exp(double x) {
  constexpr double kMagic = 6755399441055744.0;   // 2^52 + 2^51
  const double shifted = nearly_fma(x, 0x1.71547652b82fep+0, kMagic);
  const double r = nearly_fma(shifted - kMagic, -0x1.62e42fefa39efp-1, x);
  double p = 0x1.72c74c401d43ap-19;
  p = nearly_fma(p, r, 0x1.a15a8b818f713p-16);
  p = nearly_fma(p, r, 0x1.a019ad8c95b76p-13);
  p = nearly_fma(p, r, 0x1.6c164dc9135e4p-10);
  p = nearly_fma(p, r, 0x1.1111111c4c1f5p-7);
  p = nearly_fma(p, r, 0x1.555555743a253p-5);
  p = nearly_fma(p, r, 0x1.5555555553b6ap-3);
  p = nearly_fma(p, r, 0x1.fffffffff7165p-2);
  p = nearly_fma(p, r, 1.0);
  return {__builtin_bit_cast(double, (__builtin_bit_cast(uint64_t, shifted) + 1023) << 52), r, p};
}

// tanh(x) for 0 <= x <= 30, to 2^-43 of its value: E / (E + 2) with E = e^2x - 1.
static inline double nearly_tanh(double x) {
  const NearlyExp e = nearly_exp(2 * x);
  const double less_one = nearly_fma(e.power, e.r * e.p, e.power - 1.0);
  return less_one / (less_one + 2.0);
}

// erf(x) for 0 <= x <= 4, to 2^-42 of its value.
static inline double nearly_erf(double x) {
  const double z = x * x, u = (x - 2.0) / (x + 2.0);
  double low = -0x1.c1a515de8637ap-24;   // erf(x) / x in z, x <= 1
  low = nearly_fma(low, z, 0x1.9ae0986f9de4fp-20);
  low = nearly_fma(low, z, -0x1.f0705a1dde9aap-17);
  low = nearly_fma(low, z, 0x1.f941bed7e7847p-14);
  low = nearly_fma(low, z, -0x1.c0286cad68e02p-11);
  low = nearly_fma(low, z, 0x1.565ba0406c001p-8);
  low = nearly_fma(low, z, -0x1.b82ce15c3b7f8p-6);
  low = nearly_fma(low, z, 0x1.ce2f2197bc2efp-4);
  low = nearly_fma(low, z, -0x1.812746b0271ecp-2);
  low = nearly_fma(low, z, 0x1.20dd750429b19p+0);
  double high = -0x1.c5a29c2de9f49p-16;   // erfc(x) e^(x^2) in u, 1 <= x <= 4
  high = nearly_fma(high, u, 0x1.83ff173e28d5ap-16);
  high = nearly_fma(high, u, 0x1.6d8382032a909p-13);
  high = nearly_fma(high, u, 0x1.71e5c3f448efap-15);
  high = nearly_fma(high, u, -0x1.016b158edda79p-10);
  high = nearly_fma(high, u, -0x1.bc29c73722b56p-11);
  high = nearly_fma(high, u, 0x1.ca95ecdb27d40p-8);
  high = nearly_fma(high, u, 0x1.e9471c73f5948p-9);
  high = nearly_fma(high, u, -0x1.437f0b68ae5e8p-4);
  high = nearly_fma(high, u, 0x1.eeea7dc864c96p-3);
  high = nearly_fma(high, u, -0x1.b57034efd3f8fp-2);
  high = nearly_fma(high, u, 0x1.058671b52c849p-2);
  const NearlyExp e = nearly_exp(-z);
  const double far = 1.0 - nearly_fma(e.power, e.r * e.p, e.power) * high;
  return x < 1.0 ? low * x : far;
}

// f(x) of an odd function that nearly(|x|) has up to `end` and that is 1 from there on. Not for a NaN.
template <double (*nearly)(double)>
static inline double nearly_odd(float x, float end) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x), size = bits & 0x7fffffffu;
  const uint32_t end_bits = __builtin_bit_cast(uint32_t, end);
  const double value = nearly(static_cast<double>(__builtin_bit_cast(float, size < end_bits ? size : end_bits)));
  const uint64_t sign = static_cast<uint64_t>(bits & 0x80000000u) << 32;
  return __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, value) | sign);
}

// y[i] = exactly(x[i]) for the numbers of a block, by way of nearly(x[i]), a double within 2^-39 of it (for a NaN:
// anything). y may be x.
template <class Nearly, class Exactly>
static inline void math_block(const float* x, float* y, Nearly nearly, Exactly exactly) {
  constexpr uint32_t kHalfWay = 0x10000000u, kReach = 1u << 15;   // in the 29 bits that a float has not
  constexpr uint32_t kLeast = 0x01000000u, kInfinity = 0x7f800000u;
  double values[kMathBlock];
  float rounded[kMathBlock];
  uint32_t doubtful[kMathBlock], any = 0;
  for (uint32_t i = 0; i < kMathBlock; ++i) values[i] = nearly(x[i]);
  for (uint32_t i = 0; i < kMathBlock; ++i) {
    rounded[i] = static_cast<float>(values[i]);
    const uint32_t low = static_cast<uint32_t>(__builtin_bit_cast(uint64_t, values[i])) & 0x1fffffffu;
    const uint32_t size = __builtin_bit_cast(uint32_t, rounded[i]) & 0x7fffffffu;
    const uint32_t argument = __builtin_bit_cast(uint32_t, x[i]) & 0x7fffffffu;
    // Among the subnormals half way lies elsewhere; infinities and NaN are the function's own.
    doubtful[i] = (low - (kHalfWay - kReach) < 2 * kReach ? 1u : 0u) | (size - kLeast < kInfinity - kLeast ? 0u : 1u) |
                  (argument > kInfinity ? 1u : 0u);
    any |= doubtful[i];
  }
  if (any != 0) {
    for (uint32_t i = 0; i < kMathBlock; ++i)
      if (doubtful[i] != 0) rounded[i] = exactly(x[i]);
  }
  for (uint32_t i = 0; i < kMathBlock; ++i) y[i] = rounded[i];
}

// y[i] = tanh_f32(x[i]), erf_f32(x[i]), exp_f32(x[i]) for the numbers of a block. y may be x.
static inline void tanh_block(const float* x, float* y) {
  math_block(x, y, [](float v) { return nearly_odd<nearly_tanh>(v, 22.0f); }, [](float v) { return tanh_f32(v); });
}
static inline void erf_block(const float* x, float* y) {
  math_block(x, y, [](float v) { return nearly_odd<nearly_erf>(v, 4.0f); }, [](float v) { return erf_f32(v); });
}
static inline void exp_block(const float* x, float* y) {
  const auto nearly = [](float v) {
    constexpr uint32_t kEnd = 0x42f00000u;   // 120
    const uint32_t bits = __builtin_bit_cast(uint32_t, v), size = bits & 0x7fffffffu;
    const uint32_t limited = (size < kEnd ? size : kEnd) | (bits & 0x80000000u);
    const NearlyExp e = nearly_exp(static_cast<double>(__builtin_bit_cast(float, limited)));
    return nearly_fma(e.power, e.r * e.p, e.power);
  };
  math_block(x, y, nearly, [](float v) { return exp_f32(v); });
}

// y[i] = f32(factor * tanh(x[i] / factor)), in double and rounded once, for the numbers of a block. y may be x.
static inline void softcap_block(double factor, const float* x, float* y) {
  const double inverse = 1.0 / factor;
  const auto nearly = [=](float v) {
    constexpr uint64_t kSign = uint64_t{1} << 63;
    const uint64_t bits = __builtin_bit_cast(uint64_t, static_cast<double>(v) * inverse);
    const double size = __builtin_bit_cast(double, bits & ~kSign);
    const double value = nearly_tanh(size < 22.0 ? size : 22.0);
    return factor * __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, value) | (bits & kSign));
  };
  math_block(x, y, nearly,
             [=](float v) { return static_cast<float>(factor * tanh_f64(static_cast<double>(v) / factor)); });
}

}   // namespace mote
