// Which backend runs which steps. Each step goes to the first backend in the user's order that supports it; all steps
// from the first that uses a state to the last go together, to one that supports them all. Neighbouring steps of one
// backend and one phase form a part, of both phases only where a state is used in both. Decided when the model opens,
// and once more, without it, when a backend has failed.
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

// Backends of an engine, one bit each by their place in its list: those that are not to be used.
using BackendSet = uint64_t;
inline constexpr uint32_t kMaxBackends = 64;
BackendSet only(std::span<Backend* const> backends, const Backend& backend);

// The parts of a placement, from the first to the last: as they are placed step by step, which takes no memory and is
// enough to measure with, or as they lie in a table.
class PartWalk {
 public:
  PartWalk(const Plan& plan, std::span<Backend* const> backends, BackendSet excluded)
      : plan_(&plan), backends_(backends), excluded_(excluded) {}
  PartWalk(std::span<const PlacedPart> table) : table_(table) {}
  PartWalk(std::span<PlacedPart> table) : table_(table) {}

  // False behind the last part, and when no backend takes the next step: status() is then unsupported and names it.
  bool next(PlacedPart* part);
  const Status& status() const { return status_; }
  std::span<const PlacedPart> table() const { return table_; }   // empty: placed step by step

 private:
  const Plan* plan_ = nullptr;   // null: a table
  std::span<Backend* const> backends_;
  BackendSet excluded_ = 0;
  std::span<const PlacedPart> table_;
  size_t at_ = 0;
  Status status_;
};

// Takes the table of the parts from `arena` (a measuring arena yields an empty span). unsupported, naming the step,
// when no backend takes one. `plan` must stay where it is.
struct Placement {
  std::span<PlacedPart> parts;
  uint32_t parts_count = 0;
};
Result<Placement> place_steps(const Plan& plan, std::span<Backend* const> backends, Arena& arena,
                              BackendSet excluded = 0);

// Whether a `compile` or `open` of a part that answered so leaves it to the next backends: the one whose answer it is,
// or null, failed, or does not run this part or this shape. What the caller asked for wrongly and memory that ran out
// would be the same everywhere.
inline bool leaves_part(const Status& status, const Backend* whose) {
  return whose != nullptr && (status.code() == Code::backend_failed || status.code() == Code::unsupported);
}

// Compiles the parts into `arena`; while that measures, `table` is empty. On an error nothing stays compiled, and
// *failed is the backend whose it is, or null.
Status compile_parts(PartWalk parts, std::span<PlacedPart> table, Arena& arena, Footprint* footprint, Backend** failed);

// "linear blk.3.attn_q.weight q4_1 [576, 576]" or "rms_norm of layer 3", cut to `capacity`. Returns its length.
uint32_t describe_step(const Step& step, char* to, uint32_t capacity);
// "vulkan, cpu": the backends of the parts, each once, cut to `capacity`.
void describe_backends(std::span<const PlacedPart> parts, char* to, uint32_t capacity);

}   // namespace mote
