#include <immintrin.h>
#define MOTE_PROBE_BYTES 64
#include "backends/cpu/probe/probe_kernels.h"

namespace mote {
namespace {

uint64_t int8_products(const uint8_t* block, size_t rounds) {
  const __m512i a = _mm512_load_si512(block), b = _mm512_load_si512(block + 64);
  __m512i sum[12];
  for (int i = 0; i < 12; ++i) {
    sum[i] = _mm512_setzero_si512();
    __asm__("" : "+v"(sum[i]));   // or the sums would all be one
  }
  for (; rounds != 0; --rounds)
    for (int i = 0; i < 12; ++i) sum[i] = _mm512_dpbusd_epi32(sum[i], a, b);
  for (int i = 1; i < 12; ++i) sum[0] = _mm512_add_epi32(sum[0], sum[i]);
  return sum_of_lanes(sum[0]);
}

constexpr ProbeLoop kLoops[] = {{Limit::int8, "vpdpbusd of 64 bytes", int8_products, 12 * 64 * 2}};

}   // namespace

extern const ProbeTable probe_avx512vnni;
const ProbeTable probe_avx512vnni = {kLoops, sizeof kLoops / sizeof kLoops[0]};

}   // namespace mote
