// Gives every Value of a plan a place in one block of memory by liveness: two Values share bytes only when no step
// needs both. Values that no host backend touches and that do not cross between backends get no place. Taps, which
// share with none, lie behind all others: these lie as they would without taps.
#pragma once
#include <span>

#include "core/ops/backend.h"
#include "core/pipeline/placement.h"

namespace mote {

// offset_bytes[plan.values]; returns the bytes of the block, a multiple of 64.
Result<uint64_t> plan_values(const Plan& plan, const PartWalk& parts, const SessionShape& shape,
                             std::span<uint64_t> offset_bytes);

}   // namespace mote
