#include <immintrin.h>
#define MOTE_PROBE_BYTES 32
#include "backends/cpu/probe/probe_kernels.h"

namespace mote {
namespace {

uint64_t int8_products(const uint8_t* block, size_t rounds) {
  const __m256i a = _mm256_load_si256(reinterpret_cast<const __m256i*>(block)),
                b = _mm256_load_si256(reinterpret_cast<const __m256i*>(block + 32));
  __m256i sum[12];
  for (int i = 0; i < 12; ++i) {
    sum[i] = _mm256_setzero_si256();
    __asm__("" : "+x"(sum[i]));   // or the sums would all be one
  }
  for (; rounds != 0; --rounds)
    for (int i = 0; i < 12; ++i) sum[i] = _mm256_dpbusd_avx_epi32(sum[i], a, b);
  for (int i = 1; i < 12; ++i) sum[0] = _mm256_add_epi32(sum[0], sum[i]);
  return sum_of_lanes(sum[0]);
}

constexpr ProbeLoop kLoops[] = {{Limit::int8, "vpdpbusd of 32 bytes", int8_products, 12 * 32 * 2}};

}   // namespace

extern const ProbeTable probe_avxvnni;
const ProbeTable probe_avxvnni = {kLoops, sizeof kLoops / sizeof kLoops[0]};

}   // namespace mote
