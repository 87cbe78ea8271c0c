#include <immintrin.h>
#define MOTE_PROBE_BYTES 32
#include "backends/cpu/probe/probe_kernels.h"

namespace mote {
namespace {

// int8 products added in 16 bits, and these in 32 after eight: as much as codes of 4 bits allow, so no kernel does with
// fewer instructions. The empty statement keeps the products from being computed once and for all.
uint64_t int8_products(const uint8_t* block, size_t rounds) {
  const __m256i* from = reinterpret_cast<const __m256i*>(block);
  const __m256i a = _mm256_load_si256(from), b = _mm256_load_si256(from + 1), ones = _mm256_set1_epi16(1);
  __m256i c[4], sum = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) c[i] = _mm256_load_si256(from + 2 + i);
  for (; rounds != 0; --rounds) {
    __m256i x = _mm256_setzero_si256(), y = x;
    for (int i = 0; i < 4; ++i) {
      __asm__("" : "+x"(c[i]));
      x = _mm256_add_epi16(x, _mm256_maddubs_epi16(a, c[i]));
      y = _mm256_add_epi16(y, _mm256_maddubs_epi16(b, c[i]));
    }
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_add_epi16(x, y), ones));
  }
  return sum_of_lanes(sum);
}

uint64_t f32_products(const uint8_t*, size_t rounds) {
  __m256 sum[12], one = _mm256_set1_ps(1);
  __asm__("" : "+x"(one));   // or it would be known, and the sums all be one
  for (int i = 0; i < 12; ++i) {
    sum[i] = _mm256_setzero_ps();
    __asm__("" : "+x"(sum[i]));
  }
  for (; rounds != 0; --rounds)
    for (int i = 0; i < 12; ++i) sum[i] = _mm256_fmadd_ps(sum[i], one, one);
  for (int i = 1; i < 12; ++i) sum[0] = _mm256_add_ps(sum[0], sum[i]);
  return sum_of_floats(sum[0]);
}

constexpr ProbeLoop kLoops[] = {MOTE_PROBE_READS("32 bytes"),
                                {Limit::int8, "vpmaddubsw of 32 bytes", int8_products, 8 * 32 * 2},
                                {Limit::f32, "8 lanes, fused", f32_products, 12 * 8 * 2}};

}   // namespace

extern const ProbeTable probe_avx2;
const ProbeTable probe_avx2 = {kLoops, sizeof kLoops / sizeof kLoops[0]};

}   // namespace mote
