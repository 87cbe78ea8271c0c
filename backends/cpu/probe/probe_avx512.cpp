#include <immintrin.h>
#define MOTE_PROBE_BYTES 64
#include "backends/cpu/probe/probe_kernels.h"

namespace mote {
namespace {

// As probe_avx2.cpp has it.
uint64_t int8_products(const uint8_t* block, size_t rounds) {
  const __m512i a = _mm512_load_si512(block), b = _mm512_load_si512(block + 64), ones = _mm512_set1_epi16(1);
  __m512i c[4], sum = _mm512_setzero_si512();
  for (int i = 0; i < 4; ++i) c[i] = _mm512_load_si512(block + 128 + 64 * i);
  for (; rounds != 0; --rounds) {
    __m512i x = _mm512_setzero_si512(), y = x;
    for (int i = 0; i < 4; ++i) {
      __asm__("" : "+v"(c[i]));
      x = _mm512_add_epi16(x, _mm512_maddubs_epi16(a, c[i]));
      y = _mm512_add_epi16(y, _mm512_maddubs_epi16(b, c[i]));
    }
    sum = _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_add_epi16(x, y), ones));
  }
  return sum_of_lanes(sum);
}

uint64_t f32_products(const uint8_t*, size_t rounds) {
  __m512 sum[12], one = _mm512_set1_ps(1);
  __asm__("" : "+v"(one));   // or it would be known, and the sums all be one
  for (int i = 0; i < 12; ++i) {
    sum[i] = _mm512_setzero_ps();
    __asm__("" : "+v"(sum[i]));
  }
  for (; rounds != 0; --rounds)
    for (int i = 0; i < 12; ++i) sum[i] = _mm512_fmadd_ps(sum[i], one, one);
  for (int i = 1; i < 12; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  return sum_of_floats(sum[0]);
}

constexpr ProbeLoop kLoops[] = {MOTE_PROBE_READS("64 bytes"),
                                {Limit::int8, "vpmaddubsw of 64 bytes", int8_products, 8 * 64 * 2},
                                {Limit::f32, "16 lanes, fused", f32_products, 12 * 16 * 2}};

}   // namespace

extern const ProbeTable probe_avx512;
const ProbeTable probe_avx512 = {kLoops, sizeof kLoops / sizeof kLoops[0]};

}   // namespace mote
