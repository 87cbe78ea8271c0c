// AVX2, FMA and F16C: the kernels of kernels_avx2.h; for the other formats the plain loops, in wider vectors.
#include "backends/cpu/linear/kernels_avx2.h"
#include "backends/cpu/linear/table.h"

namespace mote {
namespace {

template <Format format, uint32_t unit, uint32_t bytes>
constexpr LinearKernel own_or_loops() {
  if constexpr (kKernel<format>.rows_together != 0)   // with sanitizers gcc takes no address for a constant to compare
    return kKernel<format>;
  else
    return kernel_of<format, unit, bytes>();
}

}   // namespace

extern const LinearTable linear_avx2;
const LinearTable linear_avx2 = {{
#define MOTE_FORMAT(name, number, values, bytes) \
  MOTE_FORMAT_##name ? own_or_loops<Format::name, values, bytes>() : LinearKernel{},
#include "core/format/formats.inc"
#undef MOTE_FORMAT
}};

}   // namespace mote
