// The same source compiled with -mavx2 -mfma -mf16c: the same bits by construction, wider vectors.
#include "backends/cpu/linear/table.h"

namespace mote {

extern const LinearTable linear_avx2;
const LinearTable linear_avx2 = kTable;

}   // namespace mote
