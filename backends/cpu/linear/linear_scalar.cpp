// The kernels that define the canonical order, compiled for the baseline of the whole library.
#include "backends/cpu/linear/table.h"

namespace mote {

extern const LinearTable linear_scalar;
const LinearTable linear_scalar = kTable;

}   // namespace mote
