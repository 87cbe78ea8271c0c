// What every kernel source of this backend builds on. Kernel sources are compiled once per instruction set, so all
// of this has internal linkage and nothing here comes from a header with inline functions: the linker must never
// pick a copy that was compiled for a newer processor. Only plain pointers and builtins.
//
// Arithmetic common to all: f32, round to nearest even, subnormals kept, fma only where it is written.
//
// fma_f32, exp2_lane and the like come from core/base, whose headers math_lanes.h, fma.h and fold.h keep the same rule.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/base/fma.h"
#include "core/base/fold.h"
#include "core/base/math_lanes.h"
#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define MOTE_INLINE inline __attribute__((always_inline))

namespace mote {
namespace {

// Reductions and partial sums run in this many lanes by index and are folded by halves: the canonical order.
constexpr uint32_t kLanes = 16;

template <class To, class From>
inline To bits_as(From from) {
  return __builtin_bit_cast(To, from);
}

template <class T>
inline T load_at(const uint8_t* from) {
  T value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}

#if !MOTE_HAS_FMA
// sum[i] = fma(a[i], b[i], c[i]), for the rare lanes that `fma_lanes` cannot vouch for.
__attribute__((noinline)) void fma_lanes_slowly(float* sum, const float* a, const float* b) {
  for (uint32_t i = 0; i < kLanes; ++i) sum[i] = fma_f32_soft(a[i], b[i], sum[i]);
}
#endif

// sum[i] = fma(a[i], b[i], sum[i]) for 16 lanes; a and b lie elsewhere.
inline void fma_lanes(float* sum, const float* a, const float* b) {
#if MOTE_HAS_FMA
  for (uint32_t i = 0; i < kLanes; ++i) sum[i] = __builtin_fmaf(a[i], b[i], sum[i]);
#else
  // The product is exact in double. Rounding the sum to double and then to f32 goes wrong only where the double lies
  // half way between two floats, or where the float is subnormal. Both are rare, and seen in the bits.
  double wide[kLanes];
  float narrow[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i)
    wide[i] = static_cast<double>(a[i]) * static_cast<double>(b[i]) + static_cast<double>(sum[i]);
  for (uint32_t i = 0; i < kLanes; ++i) narrow[i] = static_cast<float>(wide[i]);
  uint32_t doubtful = 0;
  for (uint32_t i = 0; i < kLanes; ++i) {
    const uint64_t bits = bits_as<uint64_t>(wide[i]);
    const uint32_t low = static_cast<uint32_t>(bits) & 0x1fffffffu, high = static_cast<uint32_t>(bits >> 32) << 1;
    const uint32_t exponent = bits_as<uint32_t>(narrow[i]) & 0x7f800000u;   // high == 0: wide is zero
    doubtful |= (low == 0x10000000u ? 1u : 0u) | ((exponent == 0 ? 1u : 0u) & (high != 0 ? 1u : 0u));
  }
  if (doubtful != 0) return fma_lanes_slowly(sum, a, b);
  for (uint32_t i = 0; i < kLanes; ++i) sum[i] = narrow[i];
#endif
}

// ---------------------------------------------------------------------------------------------- half and bf16

// Exact; a NaN is made quiet, as the conversion instructions do. Written without branches so that loops over it become
// vectors.
inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  const uint32_t normal = (magnitude << 13) + (112u << 23);
  const uint32_t special = ((magnitude << 13) + (224u << 23)) | (magnitude > 0x7c00u ? 0x00400000u : 0);
  const uint32_t small = bits_as<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  uint32_t bits = magnitude >= 0x7c00u ? special : normal;
  bits = magnitude < 0x0400u ? small : bits;
  return bits_as<float>(bits | sign);
}

inline void halves_to_floats(const uint16_t* from, uint32_t count, float* to) {
  uint32_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
#elif defined(__aarch64__)
  for (; i + 4 <= count; i += 4) vst1q_f32(to + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from + i))));
#endif
  for (; i < count; ++i) to[i] = half_to_float(from[i]);
}

}   // namespace
}   // namespace mote
