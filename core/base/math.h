// The mathematical functions of mote. No libm: the same bits on every C library, compiler and instruction set,
// because only + - * / and integer operations are used, in the order that is written (and an exact product, for
// which hardware and software agree). The default rounding mode is assumed.
//
// Error bounds, measured against long double by tests/base/math_test.cpp (ulp = spacing of
// the type at the result):
//   double  log 0.51 ulp      exp, pow, tanh 0.6 ulp      sin, cos, erf 0.9 ulp
//           (where the result is subnormal: 1 ulp)
//   float   0.501 ulp, correctly rounded in more than 99.99 % of the arguments
// Special values are those of C's annex F: exp(-inf) = 0, log(0) = -inf, log(-1) = NaN, pow(x, 0) = 1, and so
// on; overflow gives infinity; a NaN gives a NaN.
#pragma once
#include "core/base/math_lanes.h"

namespace mote {

double exp_f64(double x);
double log_f64(double x);
double pow_f64(double x, double y);
double tanh_f64(double x);
double erf_f64(double x);

// Angles in radians up to 2^31 in magnitude (a position of 10^6 at a frequency of 1 is 2^20); beyond that, and
// for infinities, the result is a NaN: an angle of that size comes from a broken model, and NaN logits are
// noticed.
double sin_f64(double x);
double cos_f64(double x);
struct SinCos {
  double sine, cosine;
};
SinCos sin_cos_f64(double x);

// Computed in double and rounded once. `exp_f32` is in math_lanes.h.
float log_f32(float x);
float pow_f32(float x, float y);
float tanh_f32(float x);
float erf_f32(float x);
float sin_f32(float x);
float cos_f32(float x);

}   // namespace mote
