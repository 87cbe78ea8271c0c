// The oracle: every op, every format, scalar, in double precision inside each op. Slow on purpose.
#pragma once
#include "core/ops/backend.h"

namespace mote {

Result<Backend*> create_reference_backend(const BackendServices& services, Arena& engine_arena);

}   // namespace mote
