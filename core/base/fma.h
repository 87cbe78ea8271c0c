// One fused multiply-add for every target: a * b + c rounded once, the same bits with and without an instruction
// for it. (A NaN is a NaN everywhere; its sign and payload are the machine's own.)
//
// Everything here has internal linkage, because kernel files are compiled for newer instruction sets and a
// shared copy of theirs must never be picked for an older machine.
#pragma once
#include <cfloat>
#include <cstdint>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "mote must be built without -ffast-math, -Ofast and -ffinite-math-only: its results are defined bit by bit"
#endif
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
#error "mote must be built without Helium's floats, whose vectors lose subnormals: say -mcpu=cortex-m55+nomve.fp"
#endif
static_assert(FLT_EVAL_METHOD == 0, "float arithmetic must be done in float (on 32-bit x86: -msse2 -mfpmath=sse)");

// 1 where the compiler turns __builtin_fmaf into one instruction, so that libm is never asked.
#if defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__aarch64__) || defined(__ARM_FEATURE_FMA)
#define MOTE_HAS_FMA 1
#else
#define MOTE_HAS_FMA 0
#endif

namespace mote {

// The software form. The product of two floats is exact in a double. The double sum with c is then brought to
// the neighbour with an odd last bit unless it was exact ("round to odd": Boldo and Melquiond, Emulation of FMA
// and correctly rounded sums, 2008), which makes the last conversion round as if the exact sum were there. No
// branches: a loop over it vectorises.
static inline float fma_f32_soft(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = static_cast<double>(c);
  const double sum = product + addend;
  const double part = sum - product;
  const double error = (product - (sum - part)) + (addend - part);   // exact: two-sum (Knuth)
  const auto sum_bits = __builtin_bit_cast(uint64_t, sum);
  const auto error_bits = __builtin_bit_cast(uint64_t, error);
  // Integer arithmetic in place of comparisons: SSE2 has no vector form of the latter on 64 bits. An infinite or
  // NaN sum stays as it is (its error is a NaN).
  const uint64_t size = error_bits & 0x7fffffffffffffffu;
  const uint64_t finite = ~(((sum_bits >> 52 & 0x7ff) + 1) >> 11);
  const uint64_t inexact = (size + 0x7fffffffffffffffu) >> 63 & finite;   // 1: size is not 0
  const uint64_t away = inexact & ~sum_bits;                              // 1: the last bit must change
  const uint64_t opposite = 0 - ((sum_bits ^ error_bits) >> 63);          // all ones: towards zero
  const uint64_t odd = sum_bits + ((away ^ opposite) - opposite);         // + 1 or - 1 in magnitude
  return static_cast<float>(__builtin_bit_cast(double, odd));
}

static inline float fma_f32(float a, float b, float c) {
#if MOTE_HAS_FMA
  return __builtin_fmaf(a, b, c);
#else
  return fma_f32_soft(a, b, c);
#endif
}

}   // namespace mote
