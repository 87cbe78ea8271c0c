// The kernels of blocks_neon.h by the 8-bit matrix product (the extension i8mm), which the tiles take.
#include "backends/cpu/linear/blocks_neon.h"

namespace mote {

extern const LinearTable linear_i8mm;
const LinearTable linear_i8mm = kTable;

}   // namespace mote
