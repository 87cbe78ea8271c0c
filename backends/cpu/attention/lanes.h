// 16 floats in registers: one zmm, two ymm where there is no AVX-512, four of NEON's on ARM. What attention_lanes.h is
// written in. Included by kernel sources alone (internal linkage: see kernel_base.h); on x86 needs AVX2, FMA and F16C
// at least.
#pragma once
#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

#include <cstdint>

namespace mote {
namespace {

#define MOTE_INLINED __attribute__((always_inline))   // a lambda
#define MOTE_LANES MOTE_INLINED inline

#if !defined(__aarch64__)
MOTE_LANES float largest_of_8(__m256 eight) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
#endif

#if defined(__AVX512F__)

using Lanes = __m512;

MOTE_LANES Lanes same(float x) { return _mm512_set1_ps(x); }
MOTE_LANES Lanes load(const float* from) { return _mm512_loadu_ps(from); }
MOTE_LANES Lanes load(const uint16_t* halves) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves)));
}
// The first `count` < 16, zeros behind them; nothing else is read.
MOTE_LANES Lanes load_first(const float* from, uint32_t count) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from);
}
MOTE_LANES Lanes load_first(const uint16_t* halves, uint32_t count) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << count) - 1), halves));
}
MOTE_LANES void store(float* to, Lanes x) { _mm512_storeu_ps(to, x); }
MOTE_LANES Lanes add(Lanes a, Lanes b) { return _mm512_add_ps(a, b); }
MOTE_LANES Lanes subtract(Lanes a, Lanes b) { return _mm512_sub_ps(a, b); }
MOTE_LANES Lanes multiply(Lanes a, Lanes b) { return _mm512_mul_ps(a, b); }
MOTE_LANES Lanes fma(Lanes a, Lanes b, Lanes c) { return _mm512_fmadd_ps(a, b, c); }
// a > b ? a : b
MOTE_LANES Lanes larger(Lanes a, Lanes b) { return _mm512_max_ps(a, b); }
MOTE_LANES float largest(Lanes x) {
  return largest_of_8(_mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)));
}
// Lanes i with first + i in [begin, end) are those of x, the others minus infinity.
MOTE_LANES Lanes keep_between(Lanes x, uint32_t first, uint32_t begin, uint32_t end) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i from_begin = _mm512_add_epi32(lane, _mm512_set1_epi32(static_cast<int>(first - begin)));
  const __mmask16 kept = _mm512_cmplt_epu32_mask(from_begin, _mm512_set1_epi32(static_cast<int>(end - begin)));
  return _mm512_mask_mov_ps(_mm512_set1_ps(-__builtin_inff()), kept, x);
}
// p times 2^n where x is at least `least`, else 0 (as for a NaN); n lies in the low bits of `shifted`.
MOTE_LANES Lanes raise(Lanes p, Lanes shifted, Lanes x, float least) {
  const __mmask16 kept = _mm512_cmp_ps_mask(x, _mm512_set1_ps(least), _CMP_GE_OQ);
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
  return _mm512_castsi512_ps(_mm512_maskz_add_epi32(kept, _mm512_castps_si512(p), exponent));
}

#elif defined(__aarch64__)

struct Lanes {
  float32x4_t four[4];
};

// f(i) for each of the four.
template <class OfFour>
MOTE_LANES Lanes each(OfFour f) {
  return {{f(0), f(1), f(2), f(3)}};
}
MOTE_LANES Lanes same(float x) {
  const float32x4_t four = vdupq_n_f32(x);
  return {{four, four, four, four}};
}
MOTE_LANES Lanes load(const float* from) {
  return each([=](int i) MOTE_INLINED { return vld1q_f32(from + 4 * i); });
}
MOTE_LANES Lanes load(const uint16_t* halves) {
  const float16x8_t low = vreinterpretq_f16_u16(vld1q_u16(halves)), high = vreinterpretq_f16_u16(vld1q_u16(halves + 8));
  return {{vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low), vcvt_f32_f16(vget_low_f16(high)),
           vcvt_high_f32_f16(high)}};
}
MOTE_LANES void store(float* to, Lanes x) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) vst1q_f32(to + 4 * i, x.four[i]);
}
MOTE_LANES Lanes add(Lanes a, Lanes b) {
  return each([=](int i) MOTE_INLINED { return vaddq_f32(a.four[i], b.four[i]); });
}
MOTE_LANES Lanes subtract(Lanes a, Lanes b) {
  return each([=](int i) MOTE_INLINED { return vsubq_f32(a.four[i], b.four[i]); });
}
MOTE_LANES Lanes multiply(Lanes a, Lanes b) {
  return each([=](int i) MOTE_INLINED { return vmulq_f32(a.four[i], b.four[i]); });
}
MOTE_LANES Lanes fma(Lanes a, Lanes b, Lanes c) {
  return each([=](int i) MOTE_INLINED { return vfmaq_f32(c.four[i], a.four[i], b.four[i]); });
}
// Of a NaN and a number the number.
MOTE_LANES Lanes larger(Lanes a, Lanes b) {
  return each([=](int i) MOTE_INLINED { return vmaxnmq_f32(a.four[i], b.four[i]); });
}
MOTE_LANES float largest(Lanes x) {
  return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.four[0], x.four[1]), vmaxq_f32(x.four[2], x.four[3])));
}
MOTE_LANES Lanes keep_between(Lanes x, uint32_t first, uint32_t begin, uint32_t end) {
  const uint32x4_t lane = {0, 1, 2, 3};
  return each([=](int i) MOTE_INLINED {
    const uint32x4_t from_begin = vaddq_u32(lane, vdupq_n_u32(first - begin + 4 * static_cast<uint32_t>(i)));
    const uint32x4_t kept = vcltq_u32(from_begin, vdupq_n_u32(end - begin));
    return vbslq_f32(kept, x.four[i], vdupq_n_f32(-__builtin_inff()));
  });
}
MOTE_LANES Lanes raise(Lanes p, Lanes shifted, Lanes x, float least) {
  return each([=](int i) MOTE_INLINED {
    const uint32x4_t exponent = vshlq_n_u32(vreinterpretq_u32_f32(shifted.four[i]), 23);
    const uint32x4_t raised = vaddq_u32(vreinterpretq_u32_f32(p.four[i]), exponent);
    return vreinterpretq_f32_u32(vandq_u32(raised, vcgeq_f32(x.four[i], vdupq_n_f32(least))));
  });
}

#else

struct Lanes {
  __m256 low, high;
};

MOTE_LANES Lanes same(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
MOTE_LANES Lanes load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
MOTE_LANES Lanes load(const uint16_t* halves) {
  const auto* eights = reinterpret_cast<const __m128i*>(halves);
  return {_mm256_cvtph_ps(_mm_loadu_si128(eights)), _mm256_cvtph_ps(_mm_loadu_si128(eights + 1))};
}
MOTE_LANES void store(float* to, Lanes x) {
  _mm256_storeu_ps(to, x.low);
  _mm256_storeu_ps(to + 8, x.high);
}
MOTE_LANES Lanes add(Lanes a, Lanes b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
MOTE_LANES Lanes subtract(Lanes a, Lanes b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
MOTE_LANES Lanes multiply(Lanes a, Lanes b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
MOTE_LANES Lanes fma(Lanes a, Lanes b, Lanes c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
MOTE_LANES Lanes larger(Lanes a, Lanes b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
MOTE_LANES float largest(Lanes x) { return largest_of_8(_mm256_max_ps(x.low, x.high)); }
MOTE_LANES Lanes keep_between(Lanes x, uint32_t first, uint32_t begin, uint32_t end) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const auto keep = [&](__m256 eight, uint32_t at) {
    const __m256i position = _mm256_add_epi32(lane, _mm256_set1_epi32(static_cast<int>(at)));   // small: below 2^31
    const __m256i before = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(begin)), position);
    const __m256i not_behind = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(end)), position);
    const __m256 kept = _mm256_castsi256_ps(_mm256_andnot_si256(before, not_behind));
    return _mm256_blendv_ps(_mm256_set1_ps(-__builtin_inff()), eight, kept);
  };
  return {keep(x.low, first), keep(x.high, first + 8)};
}
MOTE_LANES Lanes raise(Lanes p, Lanes shifted, Lanes x, float least) {
  const auto raise8 = [&](__m256 factor, __m256 sum, __m256 argument) {
    const __m256 kept = _mm256_cmp_ps(argument, _mm256_set1_ps(least), _CMP_GE_OQ);
    const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(sum), 23);
    const __m256i raised = _mm256_add_epi32(_mm256_castps_si256(factor), exponent);
    return _mm256_and_ps(_mm256_castsi256_ps(raised), kept);
  };
  return {raise8(p.low, shifted.low, x.low), raise8(p.high, shifted.high, x.high)};
}

#endif

#if !defined(__AVX512F__)
template <class Element>
MOTE_LANES Lanes load_first(const Element* from, uint32_t count) {
  Element padded[16] = {};
  for (uint32_t i = 0; i < count; ++i) padded[i] = from[i];
  return load(padded);
}
#endif

// `exp2_lane` of core/base/math_lanes.h, the same operations in the same order.
MOTE_LANES Lanes exp2_lanes(Lanes x) {
  constexpr float kMagic = 12582912.0f;
  const Lanes shifted = add(x, same(kMagic));
  const Lanes r = subtract(x, subtract(shifted, same(kMagic)));
  Lanes p = same(0.00015453163359779865f);
  p = fma(p, r, same(0.0013390863314270973f));
  p = fma(p, r, same(0.009618083015084267f));
  p = fma(p, r, same(0.055503569543361664f));
  p = fma(p, r, same(0.24022650718688965f));
  p = fma(p, r, same(0.6931471824645996f));
  p = fma(p, r, same(1.0f));
  return raise(p, shifted, x, -115.0f);
}

// A line of 64 bytes that will be read soon, into the second level: a block of keys and one of values fill the first.
// Any address will do.
MOTE_LANES void prefetch(uintptr_t address) { __builtin_prefetch(reinterpret_cast<const void*>(address), 0, 2); }

// What is loaded by way of `from` afterwards waits until x is there: on ARM six rows leave registers for one or two
// factors, and gcc 12 would load all six first.
MOTE_LANES void in_turn([[maybe_unused]] Lanes x, [[maybe_unused]] const float*& from) {
#if defined(__aarch64__)
  __asm__("" : "+r"(from) : "w"(x.four[0]), "w"(x.four[1]), "w"(x.four[2]), "w"(x.four[3]));
#endif
}

#undef MOTE_LANES
#undef MOTE_INLINED

}   // namespace
}   // namespace mote
