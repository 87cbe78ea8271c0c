#include <immintrin.h>
#define MOTE_PROBE_BYTES 64
#include "backends/cpu/probe/probe_kernels.h"

namespace mote {
namespace {

MOTE_INLINE Wide add_products(Wide sum, Wide a, Wide b) {
  return Wide(_mm512_dpbusd_epi32(__m512i(sum), __m512i(a), __m512i(b)));
}

constexpr ProbeLoop kLoops[] = {{Limit::int8, "vpdpbusd of 64 bytes", int8_chains<add_products>, 12 * 64 * 2}};

}   // namespace

extern const ProbeTable probe_avx512vnni;
const ProbeTable probe_avx512vnni = {kLoops, sizeof kLoops / sizeof kLoops[0]};

}   // namespace mote
