// The same loops for AVX-512, vectors of 512 bits.
#include "backends/cpu/elementwise/elementwise_kernels.h"

namespace mote {

extern const ElementwiseTable elementwise_avx512;
const ElementwiseTable elementwise_avx512 = MOTE_CPU_ELEMENTWISE_TABLE;

}   // namespace mote
