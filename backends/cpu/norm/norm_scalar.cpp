// The kernels that define the canonical order, compiled for the baseline of the whole library.
#include "backends/cpu/norm/norm_kernels.h"

namespace mote {

extern const NormTable norm_scalar;
const NormTable norm_scalar = {rms_norm_row, layer_norm_row};

}   // namespace mote
