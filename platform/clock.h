// Time that only moves forward, for timings in reports. Nothing that is computed depends on it.
#pragma once
#include <cstdint>

namespace mote {

// Nanoseconds since some fixed moment. Where there is no clock: always kNoClock, so that differences are 0 and a
// printed time is easily noticed.
uint64_t monotonic_nanoseconds();

inline constexpr uint64_t kNoClock = 777'777'777'777'777'777u;

}   // namespace mote
