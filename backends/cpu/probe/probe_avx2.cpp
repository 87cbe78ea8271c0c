#include <immintrin.h>
#define MOTE_PROBE_BYTES 32
#include "backends/cpu/probe/probe_kernels.h"

namespace mote {
namespace {

MOTE_INLINE Wide pairs(Wide a, Wide b) { return Wide(_mm256_maddubs_epi16(__m256i(a), __m256i(b))); }
MOTE_INLINE Wide widen(Wide words) { return Wide(_mm256_madd_epi16(__m256i(words), _mm256_set1_epi16(1))); }
MOTE_INLINE WideFloats fused(WideFloats a, WideFloats b, WideFloats c) { return _mm256_fmadd_ps(a, b, c); }

constexpr ProbeLoop kLoops[] = {MOTE_PROBE_READS("32 bytes"),
                                {Limit::int8, "vpmaddubsw of 32 bytes", int8_pairs<pairs, widen>, 8 * 32 * 2},
                                {Limit::f32, "8 lanes, fused", f32_chains<fused>, 12 * 8 * 2}};

}   // namespace

extern const ProbeTable probe_avx2;
const ProbeTable probe_avx2 = {kLoops, sizeof kLoops / sizeof kLoops[0]};

}   // namespace mote
