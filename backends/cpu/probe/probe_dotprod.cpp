#include <arm_neon.h>
#define MOTE_PROBE_BYTES 16
#include "backends/cpu/probe/probe_kernels.h"

namespace mote {
namespace {

MOTE_INLINE Wide add_products(Wide sum, Wide a, Wide b) {
  return Wide(vdotq_s32(int32x4_t(sum), int8x16_t(a), int8x16_t(b)));
}

constexpr ProbeLoop kLoops[] = {{Limit::int8, "sdot of 16 bytes", int8_chains<add_products>, 12 * 16 * 2}};

}   // namespace

extern const ProbeTable probe_dotprod;
const ProbeTable probe_dotprod = {kLoops, sizeof kLoops / sizeof kLoops[0]};

}   // namespace mote
