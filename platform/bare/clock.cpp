#include "platform/clock.h"

namespace mote {

uint64_t monotonic_nanoseconds() { return kNoClock; }

}   // namespace mote
