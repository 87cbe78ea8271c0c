// The elementwise ops in plain loops, included by one source per instruction set. Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/elementwise/elementwise.h"
#include "backends/cpu/kernel_base.h"
#include "core/base/math_blocks.h"
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace mote {
namespace {

// What exp, tanh or erf is taken of.
template <Activation function>
inline float inner(float x) {
  if constexpr (function == Activation::silu) return -x;
  if constexpr (function == Activation::gelu_tanh) {
    constexpr float kRoot = 0.7978845608028654f;   // sqrt(2 / pi)
    const float cubed = (x * x) * x;
    return kRoot * (x + 0.044715f * cubed);
  }
  constexpr float kHalfRoot = 0.7071067811865476f;   // sqrt(1 / 2)
  return x * kHalfRoot;
}

// The activation of x from what came of it.
template <Activation function>
inline float outer(float x, float value) {
  if constexpr (function == Activation::silu) return x / (1.0f + value);
  return (0.5f * x) * (1.0f + value);
}

// activate, or gate with the inputs in `b`.
template <Activation function, bool gates>
void activate_all(const ElementwiseJob& job) {
  if constexpr (function == Activation::relu) {
    for (uint64_t i = 0; i < job.count; ++i) {
      const float y = job.a[i] < 0 ? 0.0f : job.a[i];
      job.out[i] = gates ? y * job.b[i] : y;
    }
    return;
  }
  float block[kMathBlock];
  for (uint64_t first = 0; first < job.count; first += kMathBlock) {
    const uint32_t count = static_cast<uint32_t>(job.count - first < kMathBlock ? job.count - first : kMathBlock);
    const float* x = job.a + first;
    for (uint32_t i = 0; i < count; ++i) block[i] = inner<function>(x[i]);
    for (uint32_t i = count; i < kMathBlock; ++i) block[i] = 1.0f;
    if constexpr (function == Activation::silu)
      exp_block(block, block);
    else if constexpr (function == Activation::gelu_tanh)
      tanh_block(block, block);
    else
      erf_block(block, block);
    for (uint32_t i = 0; i < count; ++i) {
      const float y = outer<function>(x[i], block[i]);
      job.out[first + i] = gates ? y * job.b[first + i] : y;
    }
  }
}
void add_all(const ElementwiseJob& job) {
  for (uint64_t i = 0; i < job.count; ++i) job.out[i] = job.a[i] + job.b[i];
}
void scale_all(const ElementwiseJob& job) {
  for (uint64_t i = 0; i < job.count; ++i) job.out[i] = job.factor * job.a[i];
}
void softcap_all(const ElementwiseJob& job) {
  float block[kMathBlock];
  for (uint64_t first = 0; first < job.count; first += kMathBlock) {
    const uint32_t count = static_cast<uint32_t>(job.count - first < kMathBlock ? job.count - first : kMathBlock);
    for (uint32_t i = 0; i < count; ++i) block[i] = job.a[first + i];
    for (uint32_t i = count; i < kMathBlock; ++i) block[i] = 1.0f;
    softcap_block(static_cast<double>(job.factor), block, block);
    for (uint32_t i = 0; i < count; ++i) job.out[first + i] = block[i];
  }
}

// Rope takes pairs in blocks of 8, a block of every head with one reading of its angles. Both sums are sums, of a sine
// whose sign was turned beforehand: gcc 12 makes one vfmaddsub of a difference beside a sum of products, in spite of
// -ffp-contract=off.
constexpr uint32_t kRopePairs = 8;
struct RopeBlock {
  float cosine[kRopePairs], sine[kRopePairs], minus_sine[kRopePairs];
  float cosines[2 * kRopePairs], sines[2 * kRopePairs];   // for neighbours on AVX2: c, c and -s, s of each pair
};

// Of one head, x and y at the block's first pair; y may be x. The second of a pair lies `apart` from the first, the
// next pair `step` on.
template <size_t step>
inline void turn_pairs(const float* x, float* y, size_t apart, size_t count, const RopeBlock& by) {
  float a[kRopePairs], b[kRopePairs], turned_a[kRopePairs], turned_b[kRopePairs];
  for (size_t i = 0; i < count; ++i) a[i] = x[i * step];
  for (size_t i = 0; i < count; ++i) b[i] = x[i * step + apart];
  for (size_t i = 0; i < count; ++i) turned_a[i] = a[i] * by.cosine[i] + b[i] * by.minus_sine[i];
  for (size_t i = 0; i < count; ++i) turned_b[i] = a[i] * by.sine[i] + b[i] * by.cosine[i];
  for (size_t i = 0; i < count; ++i) y[i * step] = turned_a[i];
  for (size_t i = 0; i < count; ++i) y[i * step + apart] = turned_b[i];
}
#if defined(__AVX2__)
// The same of a whole block of neighbours, which gcc 12 would take apart number by number.
inline void turn_pairs(const float* x, float* y, const RopeBlock& by) {
  for (size_t i = 0; i < 2 * kRopePairs; i += 8) {
    const __m256 pairs = _mm256_loadu_ps(x + i), swapped = _mm256_permute_ps(pairs, 0xb1);
    const __m256 cosines = _mm256_loadu_ps(by.cosines + i), sines = _mm256_loadu_ps(by.sines + i);
    _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_mul_ps(pairs, cosines), _mm256_mul_ps(swapped, sines)));
  }
}
#elif defined(__aarch64__)
inline void turn_pairs(const float* x, float* y, const RopeBlock& by) {
  for (size_t i = 0; i < kRopePairs; i += 4) {
    const float32x4x2_t pairs = vld2q_f32(x + 2 * i);
    const float32x4_t cosine = vld1q_f32(by.cosine + i), sine = vld1q_f32(by.sine + i);
    float32x4x2_t turned;
    turned.val[0] = vaddq_f32(vmulq_f32(pairs.val[0], cosine), vmulq_f32(pairs.val[1], vld1q_f32(by.minus_sine + i)));
    turned.val[1] = vaddq_f32(vmulq_f32(pairs.val[0], sine), vmulq_f32(pairs.val[1], cosine));
    vst2q_f32(y + 2 * i, turned);
  }
}
#endif

template <size_t step>
void rope_pairs(const RopeJob& job, size_t apart) {
  const size_t pairs = job.attributes.n_rotated / 2, heads = job.attributes.n_heads, dim = job.attributes.head_dim;
  for (size_t first = 0; first < pairs; first += kRopePairs) {
    const size_t count = pairs - first < kRopePairs ? pairs - first : kRopePairs;
    const float* angles = job.angles + 2 * first;
    RopeBlock by;
    for (size_t i = 0; i < count; ++i) {
      by.cosine[i] = angles[2 * i];
      by.sine[i] = angles[2 * i + 1];
      by.minus_sine[i] = bits_as<float>(bits_as<uint32_t>(by.sine[i]) ^ 0x80000000u);
      by.cosines[2 * i] = by.cosines[2 * i + 1] = by.cosine[i];
      by.sines[2 * i] = by.minus_sine[i];
      by.sines[2 * i + 1] = by.sine[i];
    }
    const float* x = job.x + first * step;
    float* y = job.y + first * step;
    for (size_t head = 0; head < heads; ++head, x += dim, y += dim) {
#if defined(__AVX2__) || defined(__aarch64__)
      if (step == 2 && count == kRopePairs) {
        turn_pairs(x, y, by);
        continue;
      }
#endif
      if (count == kRopePairs)
        turn_pairs<step>(x, y, apart, kRopePairs, by);
      else
        turn_pairs<step>(x, y, apart, count, by);
    }
  }
}

void rope_row(const RopeJob& job) {
  const RopeAttributes& at = job.attributes;
  if (at.pairing == RopePairing::neighbours)
    rope_pairs<2>(job, 1);
  else
    rope_pairs<1>(job, at.n_rotated / 2);
  for (size_t head = 0; head < at.n_heads; ++head)
    for (size_t i = at.n_rotated; i < at.head_dim; ++i) job.y[head * at.head_dim + i] = job.x[head * at.head_dim + i];
}

#define MOTE_CPU_ELEMENTWISE_TABLE                                                          \
  {{activate_all<Activation::relu, false>, activate_all<Activation::silu, false>,           \
    activate_all<Activation::gelu_tanh, false>, activate_all<Activation::gelu_erf, false>}, \
   {activate_all<Activation::relu, true>, activate_all<Activation::silu, true>,             \
    activate_all<Activation::gelu_tanh, true>, activate_all<Activation::gelu_erf, true>},   \
   add_all,                                                                                 \
   scale_all,                                                                               \
   softcap_all,                                                                             \
   rope_row}

}   // namespace
}   // namespace mote
