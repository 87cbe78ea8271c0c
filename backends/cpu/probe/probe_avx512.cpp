#include <immintrin.h>
#define MOTE_PROBE_BYTES 64
#include "backends/cpu/probe/probe_kernels.h"

namespace mote {
namespace {

MOTE_INLINE Wide pairs(Wide a, Wide b) { return Wide(_mm512_maddubs_epi16(__m512i(a), __m512i(b))); }
MOTE_INLINE Wide widen(Wide words) { return Wide(_mm512_madd_epi16(__m512i(words), _mm512_set1_epi16(1))); }
MOTE_INLINE WideFloats fused(WideFloats a, WideFloats b, WideFloats c) { return _mm512_fmadd_ps(a, b, c); }

constexpr ProbeLoop kLoops[] = {MOTE_PROBE_READS("64 bytes"),
                                {Limit::int8, "vpmaddubsw of 64 bytes", int8_pairs<pairs, widen>, 8 * 64 * 2},
                                {Limit::f32, "16 lanes, fused", f32_chains<fused>, 12 * 16 * 2}};

}   // namespace

extern const ProbeTable probe_avx512;
const ProbeTable probe_avx512 = {kLoops, sizeof kLoops / sizeof kLoops[0]};

}   // namespace mote
