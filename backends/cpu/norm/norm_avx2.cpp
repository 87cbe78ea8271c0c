// The same loops for AVX2 and FMA. With AVX-512 they are no faster: a row's sum of squares is one chain of fma.
#include "backends/cpu/norm/norm_kernels.h"

namespace mote {

extern const NormTable norm_avx2;
const NormTable norm_avx2 = {rms_norm_row, layer_norm_row};

}   // namespace mote
