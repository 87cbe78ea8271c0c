#include "core/base/math.h"

#include <limits>

namespace mote {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// ---------------------------------------------------------------- numbers as unevaluated sums of two doubles

struct Pair {
  double hi, lo;   // |lo| <= half an ulp of hi
};

// The exact sum; |a| >= |b| or a = 0.
inline Pair fast_two_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}
inline Pair two_sum(double a, double b) {
  const double sum = a + b, part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}
// The exact product, by Dekker's splitting: |a|, |b| < 2^990, and the product above 2^-960 (else lo is only close).
inline Pair two_product(double a, double b) {
  constexpr double kSplit = 134217729.0;   // 2^27 + 1
  const double ca = kSplit * a, cb = kSplit * b;
  const double ah = ca - (ca - a), al = a - ah, bh = cb - (cb - b), bl = b - bh;
  const double product = a * b;
  return {product, ((ah * bh - product) + ah * bl + al * bh) + al * bl};
}
inline Pair add(Pair a, Pair b) {
  const Pair sum = two_sum(a.hi, b.hi);
  return fast_two_sum(sum.hi, sum.lo + (a.lo + b.lo));
}
inline Pair multiply(Pair a, Pair b) {
  const Pair product = two_product(a.hi, b.hi);
  return fast_two_sum(product.hi, product.lo + (a.hi * b.lo + a.lo * b.hi));
}
inline Pair divide(Pair a, Pair b) {
  const double quotient = a.hi / b.hi;
  const Pair product = two_product(quotient, b.hi);
  const double rest = ((a.hi - product.hi) - product.lo) + (a.lo - quotient * b.lo);
  return fast_two_sum(quotient, rest / b.hi);
}

// ---------------------------------------------------------------- pieces

inline uint64_t bits_of(double x) { return __builtin_bit_cast(uint64_t, x); }
inline double from_bits(uint64_t bits) { return __builtin_bit_cast(double, bits); }
inline double magnitude(double x) { return from_bits(bits_of(x) & ~(uint64_t{1} << 63)); }
inline bool negative(double x) { return (bits_of(x) >> 63) != 0; }
inline double with_sign_of(double size, double x) {
  return from_bits(bits_of(size) | (bits_of(x) & (uint64_t{1} << 63)));
}

// 2^n for -1022 <= n <= 1023.
inline double power_of_two(int n) { return from_bits(static_cast<uint64_t>(n + 1023) << 52); }
// x 2^n for normal x near 1 and -1100 <= n <= 1100, rounded once.
inline double scale_by(double x, int n) {
  const int half = n / 2;
  return (x * power_of_two(half)) * power_of_two(n - half);
}

// ln(2) in pieces of 32 bits, so that a piece times a number of up to 21 bits is exact.
constexpr double kLn2First = 0x1.62e42feep-1, kLn2Second = 0x1.a39ef356p-33, kLn2Third = 0x1.93c7673007e5fp-65;
constexpr Pair kThird = {0x1.5555555555555p-2, 0x1.5555555555555p-56};
constexpr double kLog2E = 0x1.71547652b82fep+0;

// e^r - 1 for |r| <= 0.35, to about 2^-58: r + r^2 / 2 are kept exactly, the rest of the Taylor series is small.
inline Pair expm1_reduced(Pair r) {
  const double x = r.hi;
  double p = 1.0 / 6227020800.0;   // 1 / 13!
  p = p * x + 1.0 / 479001600;
  p = p * x + 1.0 / 39916800;
  p = p * x + 1.0 / 3628800;
  p = p * x + 1.0 / 362880;
  p = p * x + 1.0 / 40320;
  p = p * x + 1.0 / 5040;
  p = p * x + 1.0 / 720;
  p = p * x + 1.0 / 120;
  p = p * x + 1.0 / 24;
  p = p * x + 1.0 / 6;
  const Pair square = two_product(x, x);
  const Pair head = fast_two_sum(x, 0.5 * square.hi);
  const double rest = 0.5 * square.lo + x * square.hi * p + (r.lo + x * r.lo);
  return fast_two_sum(head.hi, head.lo + rest);
}

struct Reduced {
  Pair r;
  int n;
};
// x = n ln(2) + r with |r| <= ln(2) / 2 (and a little), for |x.hi| <= 750.
inline Reduced reduce_by_ln2(Pair x) {
  const double n = round_to_even_f64(x.hi * kLog2E);
  const Pair r = two_sum(x.hi - n * kLn2First, -(n * kLn2Second));
  return {fast_two_sum(r.hi, r.lo + (x.lo - n * kLn2Third)), static_cast<int>(n)};
}

// e^x for a pair with |x.hi| <= 750; overflow and underflow as they come.
inline double exp_of_pair(Pair x) {
  const Reduced reduced = reduce_by_ln2(x);
  const Pair e = expm1_reduced(reduced.r);
  const Pair sum = fast_two_sum(1.0, e.hi);
  return scale_by(sum.hi + (sum.lo + e.lo), reduced.n);
}

// ln(x) for finite x > 0, to about 2^-64 of its value. x = 2^n m with m in [sqrt(1/2), sqrt(2)), and
// ln(m) = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172.
inline Pair log_as_pair(double x) {
  int n = -1023;
  if (x < 0x1p-1022) x *= 0x1p54, n -= 54;
  // The exponent steps where the mantissa passes sqrt(2).
  constexpr uint64_t kMantissa = (uint64_t{1} << 52) - 1, kSqrt2Mantissa = 0x6a09e667f3bcdu;
  const uint64_t bits = bits_of(x);
  const uint64_t step = (bits & kMantissa) >= kSqrt2Mantissa ? 1 : 0;
  n += static_cast<int>(bits >> 52) + static_cast<int>(step);
  const double m = from_bits((bits & kMantissa) | (uint64_t{1023} - step) << 52);

  const Pair s = divide({m - 1.0, 0}, two_sum(m, 1.0));
  const Pair z = multiply(s, s);
  constexpr double kSeries[] = {1.0 / 27, 1.0 / 25, 1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17,
                                1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5};
  double p = 0;
  for (const double c : kSeries) p = p * z.hi + c;
  const Pair series = multiply(z, add(kThird, {z.hi * p, 0}));   // z/3 + z^2/5 + ...
  const Pair tail = multiply(s, series);
  const Pair log_m = add({2 * s.hi, 2 * s.lo}, {2 * tail.hi, 2 * tail.lo});
  const auto count = static_cast<double>(n);
  const Pair whole = two_sum(count * kLn2First, count * kLn2Second);
  return add({whole.hi, whole.lo + count * kLn2Third}, log_m);
}

// ---------------------------------------------------------------- sine and cosine

// pi / 2 in pieces of 22 bits: times a number of up to 31 bits each is exact.
constexpr double kHalfPi[6] = {0x1.921fbp+0,    0x1.5110bp-22,  0x1.1846980p-44,
                               0x1.3198a00p-69, 0x1.701b80p-92, 0x1.cd129024e088ap-115};
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
constexpr double kLargestAngle = 2147483648.0;   // 2^31

// x = quadrant pi/2 + r, |r| <= pi/4 (and a little).
inline Pair reduce_by_half_pi(double x, unsigned* quadrant) {
  const double n = round_to_even_f64(x * kTwoOverPi);
  *quadrant = static_cast<unsigned>(static_cast<int64_t>(n)) & 3u;
  Pair r = {x - n * kHalfPi[0], 0};   // exact: both are multiples of one small unit, and nearly equal
  for (int i = 1; i < 6; ++i) {
    const Pair next = two_sum(r.hi, -(n * kHalfPi[i]));
    r = fast_two_sum(next.hi, next.lo + r.lo);
  }
  return r;
}

inline double sin_reduced(Pair r) {
  const double z = r.hi * r.hi;
  double p = 1.0 / 355687428096000.0;   // 1 / 17!
  p = p * z - 1.0 / 1307674368000.0;
  p = p * z + 1.0 / 6227020800.0;
  p = p * z - 1.0 / 39916800;
  p = p * z + 1.0 / 362880;
  p = p * z - 1.0 / 5040;
  p = p * z + 1.0 / 120;
  p = p * z - 1.0 / 6;
  return r.hi + (r.hi * z * p + r.lo * (1.0 - 0.5 * z));
}

inline double cos_reduced(Pair r) {
  const Pair z = two_product(r.hi, r.hi);
  double p = -1.0 / 6402373705728000.0;   // 1 / 18!
  p = p * z.hi + 1.0 / 20922789888000.0;
  p = p * z.hi - 1.0 / 87178291200.0;
  p = p * z.hi + 1.0 / 479001600;
  p = p * z.hi - 1.0 / 3628800;
  p = p * z.hi + 1.0 / 40320;
  p = p * z.hi - 1.0 / 720;
  p = p * z.hi + 1.0 / 24;
  const Pair head = fast_two_sum(1.0, -0.5 * z.hi);
  return head.hi + (head.lo + (z.hi * z.hi * p - 0.5 * z.lo - r.hi * r.lo));
}

// erfc(x) e^(x^2) on [1, 6] as a polynomial in u = 2.5 (x - 4) / (x + 4) + 0.5, |u| <= 1: Chebyshev interpolation
// at 18 points (math_coefficients.py). What it leaves is below 2^-60 of erf(x).
constexpr double kErfcScaled[18] = {0x1.97b3643d2dbacp-3,   -0x1.2f5ebea455d39p-3,  0x1.c9dc1a149db93p-5,
                                    -0x1.28327629c7916p-6,  0x1.470b1b581983dp-8,   -0x1.307d754801f46p-10,
                                    0x1.d2d18ca2c0b83p-13,  -0x1.18b18b9a4b353p-15, 0x1.d59a72eca835dp-19,
                                    -0x1.33889dc39ca63p-23, -0x1.babff6455526fp-26, 0x1.549c0e2f2dc20p-28,
                                    -0x1.d6af4a177d714p-34, -0x1.3088fecb44adep-34, 0x1.ce16c3528c776p-38,
                                    0x1.d75ff24c603a5p-41,  -0x1.4219e4652eaeep-43, -0x1.6aa93759d966bp-47};

// (-1)^n / (n! (2n + 1)) for n = 1 ... 18: erf(x) = 2 / sqrt(pi) x (1 + sum of these x^2n), used for |x| < 1.
constexpr int kErfTerms = 18;
struct ErfSeries {
  double c[kErfTerms] = {};
  constexpr ErfSeries() {
    double factorial = 1;   // exact up to 18!
    for (int n = 1; n <= kErfTerms; ++n) {
      factorial *= n;
      c[n - 1] = ((n & 1) != 0 ? -1.0 : 1.0) / (factorial * (2 * n + 1));
    }
  }
};
constexpr ErfSeries kErfSeries;

bool is_integer(double y) { return round_to_even_f64(y) == y; }
// Whether the integer y is odd. From 2^53 on all are even.
bool is_odd(double y) { return magnitude(y) < 0x1p53 && (static_cast<int64_t>(y) & 1) != 0; }

// x^y where x is 0 or infinite, x not negative; y is not 0.
double pow_of_extreme(double x, double y) { return (x == 0) == (y > 0) ? 0.0 : kInfinity; }

// x^y for finite x > 0, any y but 0 and NaN.
double pow_positive(double x, double y) {
  if (x == 1) return 1.0;
  if (magnitude(y) > 0x1p70) return (x > 1) == (y > 0) ? kInfinity : 0.0;   // |ln x| > 2^-54 for any other x
  const Pair log_x = log_as_pair(x);
  const double size = y * log_x.hi;
  if (size > 710.0) return kInfinity;
  if (size < -746.0) return 0.0;
  const Pair product = two_product(y, log_x.hi);
  return exp_of_pair(fast_two_sum(product.hi, product.lo + y * log_x.lo));
}

}   // namespace

double exp_f64(double x) {
  if (x > 710.0) return kInfinity;
  if (x < -746.0) return 0.0;
  if (x != x) return x;
  return exp_of_pair({x, 0});
}

double log_f64(double x) {
  if (x == 0) return -kInfinity;
  if (!(x > 0)) return kNaN;
  if (x == kInfinity) return x;
  return log_as_pair(x).hi;
}

double pow_f64(double x, double y) {
  if (y == 0 || x == 1) return 1.0;
  if (x != x || y != y) return kNaN;
  const double size = magnitude(x);
  if (magnitude(y) == kInfinity) {
    if (size == 1) return 1.0;
    return (size > 1) == (y > 0) ? kInfinity : 0.0;
  }
  if (negative(x) && !is_integer(y) && size != 0 && size != kInfinity) return kNaN;
  const double result = size == 0 || size == kInfinity ? pow_of_extreme(size, y) : pow_positive(size, y);
  return negative(x) && is_integer(y) && is_odd(y) ? -result : result;
}

double tanh_f64(double x) {
  const double size = magnitude(x);
  if (!(size > 0x1p-28)) return x;   // x^3 / 3 is below half an ulp; a NaN leaves here too
  if (size > 22.0) return with_sign_of(1.0, x);
  // tanh = E / (E + 2) with E = e^(2|x|) - 1
  const Reduced reduced = reduce_by_ln2({2 * size, 0});
  const Pair e = expm1_reduced(reduced.r);
  const double power = power_of_two(reduced.n);
  const Pair scaled = {e.hi * power, e.lo * power};
  const Pair numerator = reduced.n == 0 ? scaled : add({power - 1.0, 0}, scaled);
  return with_sign_of(divide(numerator, add({2.0, 0}, numerator)).hi, x);
}

double erf_f64(double x) {
  constexpr Pair kTwoOverSqrtPi = {0x1.20dd750429b6dp+0, 0x1.1ae3a914fed80p-56};
  const double size = magnitude(x);
  if (size != size) return x;
  if (size < 0x1p-28) return x * kTwoOverSqrtPi.hi + x * kTwoOverSqrtPi.lo;
  if (size >= 6.0) return with_sign_of(1.0, x);
  if (size < 1.0) {
    const Pair z = two_product(x, x);
    double p = 0;
    for (int i = kErfTerms - 1; i >= 1; --i) p = p * z.hi + kErfSeries.c[i];
    const Pair series = multiply(z, fast_two_sum(-kThird.hi, z.hi * p - kThird.lo));
    const Pair head = multiply({x, 0}, kTwoOverSqrtPi);
    return add(head, multiply(head, series)).hi;
  }
  const double u = 2.5 * ((size - 4.0) / (size + 4.0)) + 0.5;
  double p = 0;
  for (int i = 17; i >= 0; --i) p = p * u + kErfcScaled[i];
  const Pair square = two_product(size, size);
  return with_sign_of(1.0 - exp_of_pair({-square.hi, -square.lo}) * p, x);
}

SinCos sin_cos_f64(double x) {
  if (!(magnitude(x) <= kLargestAngle)) return {kNaN, kNaN};
  unsigned quadrant = 0;
  const Pair r = reduce_by_half_pi(x, &quadrant);
  const double s = sin_reduced(r), c = cos_reduced(r);
  switch (quadrant) {
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
    default:
      return {-c, s};
  }
}
double sin_f64(double x) { return x == 0 ? x : sin_cos_f64(x).sine; }
double cos_f64(double x) { return sin_cos_f64(x).cosine; }

float log_f32(float x) { return static_cast<float>(log_f64(static_cast<double>(x))); }
float pow_f32(float x, float y) { return static_cast<float>(pow_f64(static_cast<double>(x), static_cast<double>(y))); }
float tanh_f32(float x) { return static_cast<float>(tanh_f64(static_cast<double>(x))); }
float erf_f32(float x) { return static_cast<float>(erf_f64(static_cast<double>(x))); }
float sin_f32(float x) { return static_cast<float>(sin_f64(static_cast<double>(x))); }
float cos_f32(float x) { return static_cast<float>(cos_f64(static_cast<double>(x))); }

}   // namespace mote
