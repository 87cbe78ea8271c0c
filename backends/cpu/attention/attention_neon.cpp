// 16 lanes are two registers.
#include "backends/cpu/attention/attention_lanes.h"

namespace mote {

extern const AttentionTable attention_neon;
const AttentionTable attention_neon = MOTE_CPU_ATTENTION_LANES_TABLE;

}   // namespace mote
