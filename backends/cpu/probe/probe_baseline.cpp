// What every processor of the kind has: SSE2 on x86-64, NEON on aarch64, plain loops elsewhere.
#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#define MOTE_PROBE_BYTES 16
#include "backends/cpu/probe/probe_kernels.h"

namespace mote {
namespace {

#if defined(__SSE2__)

// Codes in 16 bits, whose products are added in pairs.
uint64_t int8_products(const uint8_t* block, size_t rounds) {
  const __m128i* from = reinterpret_cast<const __m128i*>(block);
  const __m128i low = _mm_set1_epi16(0xff);
  const __m128i a = _mm_and_si128(_mm_load_si128(from), low), b = _mm_and_si128(_mm_load_si128(from + 1), low);
  __m128i c[4], sum[4];
  for (int i = 0; i < 4; ++i) c[i] = _mm_and_si128(_mm_load_si128(from + 2 + i), low), sum[i] = _mm_setzero_si128();
  for (; rounds != 0; --rounds) {
    for (int i = 0; i < 4; ++i) {
      forget(c[i]);
      sum[i] = _mm_add_epi32(sum[i], _mm_madd_epi16(a, c[i]));
      sum[i] = _mm_add_epi32(sum[i], _mm_madd_epi16(b, c[i]));
    }
  }
  return sum_of_lanes(_mm_add_epi32(_mm_add_epi32(sum[0], sum[1]), _mm_add_epi32(sum[2], sum[3])));
}
constexpr uint32_t kInt8Operations = 8 * 8 * 2;
constexpr char kInt8Name[] = "pmaddwd of 16 bytes";

#elif defined(__aarch64__)

// int8 products in sums of 16 bits, which are added up in pairs after eight: as much as codes of 4 bits allow.
uint64_t int8_products(const uint8_t* block, size_t rounds) {
  const int8x16_t a = vld1q_s8(reinterpret_cast<const int8_t*>(block));
  int8x16_t b = vld1q_s8(reinterpret_cast<const int8_t*>(block + 16));
  int32x4_t sum[4];
  for (int i = 0; i < 4; ++i) sum[i] = vdupq_n_s32(0);
  for (; rounds != 0; --rounds) {
    for (int i = 0; i < 4; ++i) {
      int16x8_t narrow = vdupq_n_s16(0);
      for (int j = 0; j < 4; ++j) {
        forget(b);
        narrow = vmlal_s8(narrow, vget_low_s8(a), vget_low_s8(b));
        narrow = vmlal_high_s8(narrow, a, b);
      }
      sum[i] = vpadalq_s16(sum[i], narrow);
    }
  }
  return sum_of_lanes(vaddq_s32(vaddq_s32(sum[0], sum[1]), vaddq_s32(sum[2], sum[3])));
}
constexpr uint32_t kInt8Operations = 4 * 8 * 8 * 2;
constexpr char kInt8Name[] = "smlal of 16 bytes";

#else

uint64_t int8_products(const uint8_t* block, size_t rounds) {
  uint32_t sum[8] = {};
  for (; rounds != 0; --rounds) {
    for (uint32_t i = 0; i < 8; ++i) sum[i] += static_cast<uint32_t>(block[i]) * block[i + 8];
    __asm__("" : "+r"(block) : : "memory");
  }
  uint32_t all = 0;
  for (const uint32_t one : sum) all += one;
  return all;
}
constexpr uint32_t kInt8Operations = 8 * 2;
constexpr char kInt8Name[] = "a plain loop";

#endif

// A product and a sum, where the baseline has no instruction for both.
uint64_t f32_products(const uint8_t* block, size_t rounds) {
  WideFloats sum[8], one;
  for (int i = 0; i < 4; ++i) one[i] = static_cast<float>(block[i]);
  for (int i = 0; i < 8; ++i) sum[i] = one - static_cast<float>(block[4 + i]);   // 0, but not known to be the same
  const WideFloats factor = one;
  for (; rounds != 0; --rounds) {
#if defined(__aarch64__)
    for (int i = 0; i < 8; ++i) sum[i] = vfmaq_f32(one, sum[i], factor);
#else
    for (int i = 0; i < 8; ++i) sum[i] = sum[i] * factor + one;
#endif
  }
  const WideFloats all = sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
  return sum_of_floats(all);
}

constexpr ProbeLoop kLoops[] = {MOTE_PROBE_READS("16 bytes"),
                                {Limit::int8, kInt8Name, int8_products, kInt8Operations},
                                {Limit::f32, "4 lanes", f32_products, 8 * 4 * 2}};

}   // namespace

extern const ProbeTable probe_baseline;
const ProbeTable probe_baseline = {kLoops, sizeof kLoops / sizeof kLoops[0]};

}   // namespace mote
