// The kernels of blocks_neon.h by the 8-bit dot product (ARMv8.2's extension).
#include "backends/cpu/linear/blocks_neon.h"

namespace mote {

extern const LinearTable linear_dotprod;
const LinearTable linear_dotprod = kTable;

}   // namespace mote
