// Which backend runs which steps: decided once, when the model opens. Each step goes to the first backend in the user's
// order that supports it; the steps of one state, and what stands between them, go to one backend and into one part.
// Neighbouring steps of one backend form a part.
#pragma once
#include <span>

#include "core/base/arena.h"
#include "core/ops/backend.h"

namespace mote {

struct PlacedPart {
  PlanPart part;
  Backend* backend = nullptr;
  Program* program = nullptr;   // null until compiled
};

// Takes the parts' memory from `arena` (a measuring arena yields an empty span: `parts_count` tells how many there
// are). unsupported, naming the step, when no backend takes one. `plan` must stay where it is.
struct Placement {
  std::span<PlacedPart> parts;
  uint32_t parts_count = 0;
};
Result<Placement> place_steps(const Plan& plan, std::span<Backend* const> backends, Arena& arena);

// "linear blk.3.attn_q.weight q4_1 [576, 576]" or "rms_norm of layer 3", cut to `capacity`. Returns its length.
uint32_t describe_step(const Step& step, char* to, uint32_t capacity);

}   // namespace mote
