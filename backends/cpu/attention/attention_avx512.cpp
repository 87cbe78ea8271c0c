// 16 lanes are one register.
#include "backends/cpu/attention/attention_lanes.h"

namespace mote {

extern const AttentionTable attention_avx512;
const AttentionTable attention_avx512 = MOTE_CPU_ATTENTION_LANES_TABLE;

}   // namespace mote
