#include <immintrin.h>
#define MOTE_PROBE_BYTES 32
#include "backends/cpu/probe/probe_kernels.h"

namespace mote {
namespace {

MOTE_INLINE Wide add_products(Wide sum, Wide a, Wide b) {
  return Wide(_mm256_dpbusd_avx_epi32(__m256i(sum), __m256i(a), __m256i(b)));
}

constexpr ProbeLoop kLoops[] = {{Limit::int8, "vpdpbusd of 32 bytes", int8_chains<add_products>, 12 * 32 * 2}};

}   // namespace

extern const ProbeTable probe_avxvnni;
const ProbeTable probe_avxvnni = {kLoops, sizeof kLoops / sizeof kLoops[0]};

}   // namespace mote
