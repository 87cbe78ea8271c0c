// What this machine's cores reach at most: reading memory, products of int8 and of f32. The loops themselves; measuring
// by them is core/api_limits.cpp.
//
// A yardstick has to be at least as fast as any kernel, so every loop that can run is tried and the best one counts: no
// two processors agree on what reads fastest, wide loads, fetching ahead by software (Zen 4) or several places at once.
#pragma once
#include "core/ops/probe_loop.h"

namespace mote {

std::span<const ProbeVariant> cpu_probe_variants();   // the baseline first

}   // namespace mote
