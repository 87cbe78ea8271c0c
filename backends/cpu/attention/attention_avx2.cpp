// The same source compiled with -mavx2 -mfma -mf16c: the same bits by construction, wider vectors.
#include "backends/cpu/attention/attention_kernels.h"

namespace mote {

extern const AttentionTable attention_avx2;
const AttentionTable attention_avx2 = MOTE_CPU_ATTENTION_TABLE;

}   // namespace mote
