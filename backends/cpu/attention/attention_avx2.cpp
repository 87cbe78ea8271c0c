// 16 lanes are two registers.
#include "backends/cpu/attention/attention_lanes.h"

namespace mote {

extern const AttentionTable attention_avx2;
const AttentionTable attention_avx2 = MOTE_CPU_ATTENTION_LANES_TABLE;

}   // namespace mote
