// The kernels that define the canonical order, compiled for the baseline of the whole library.
#include "backends/cpu/attention/attention_kernels.h"

namespace mote {

extern const AttentionTable attention_scalar;
const AttentionTable attention_scalar = MOTE_CPU_ATTENTION_TABLE;

}   // namespace mote
