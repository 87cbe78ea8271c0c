// AVX2 with the 8-bit dot product in 256 bits: the formats of kernels_avx2.h. Tests compile this source for AVX-512VL,
// too, under a name of its own.
#include "backends/cpu/linear/kernels_avx2.h"

#ifndef MOTE_LINEAR_TABLE
#define MOTE_LINEAR_TABLE linear_avxvnni
#endif

namespace mote {

extern const LinearTable MOTE_LINEAR_TABLE;
const LinearTable MOTE_LINEAR_TABLE = {{
#define MOTE_FORMAT(name, number, values, bytes) MOTE_FORMAT_##name ? kKernel<Format::name> : LinearKernel{},
#include "core/format/formats.inc"
#undef MOTE_FORMAT
}};

}   // namespace mote
