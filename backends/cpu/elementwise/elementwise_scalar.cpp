// The kernels that define the canonical order, compiled for the baseline of the whole library.
#include "backends/cpu/elementwise/elementwise_kernels.h"

namespace mote {

extern const ElementwiseTable elementwise_scalar;
const ElementwiseTable elementwise_scalar = MOTE_CPU_ELEMENTWISE_TABLE;

}   // namespace mote
