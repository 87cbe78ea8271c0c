// The `xnnpack` backend: the whole llama pipeline on XNNPACK's operators, for comparison and for processors that
// XNNPACK has better kernels for. Deterministic on one machine: the same bits for any number of lanes; README.md has
// its bounds.
#pragma once
#include "core/base/arena.h"
#include "core/base/result.h"
#include "core/ops/backend.h"

namespace mote {

// Takes the backend from the arena; a null pointer while that only measures. backend_failed where XNNPACK does not run
// on this processor. Initialises XNNPACK, which is one for the process and keeps what it took.
Result<Backend*> create_xnnpack_backend(const BackendServices& services, Arena& engine_arena);

}   // namespace mote
