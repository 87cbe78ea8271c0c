// The same loops for AVX2 and FMA.
#include "backends/cpu/elementwise/elementwise_kernels.h"

namespace mote {

extern const ElementwiseTable elementwise_avx2;
const ElementwiseTable elementwise_avx2 = MOTE_CPU_ELEMENTWISE_TABLE;

}   // namespace mote
