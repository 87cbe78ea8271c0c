// The `cpu` backend: every op on GGUF blocks as they lie in the file, f32 between steps, the canonical order of
// arithmetic of each op's header. The same bits for any number of lanes, any way of cutting the prompt into batches,
// and any row of the kernel tables.
#pragma once
#include "core/base/arena.h"
#include "core/base/result.h"
#include "core/ops/backend.h"

namespace mote {

// The version of that order, kept in snapshots. Whoever changes any bit of any result, of any op and format, raises it.
inline constexpr uint32_t kOrderVersion = 1;

// Takes the backend from the arena; a null pointer while that only measures. Kernels are chosen here, by what the
// processor can do and BackendServices::instruction_sets allows.
Result<Backend*> create_cpu_backend(const BackendServices& services, Arena& engine_arena);

}   // namespace mote
