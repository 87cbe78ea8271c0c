#include "platform/clock.h"

#include <time.h>

namespace mote {

uint64_t monotonic_nanoseconds() {
  timespec now{};
  if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return kNoClock;
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

}   // namespace mote
