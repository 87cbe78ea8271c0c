// A placement made ready for one session: an Executor (core/ops/backend.h) for each part, which are run together, and
// the Values that they hand each other. It knows batches and states, not tokens or histories, and is exchanged as a
// whole when a backend fails.
#pragma once
#include <atomic>
#include <span>

#include "core/base/arena.h"
#include "core/ops/backend.h"
#include "core/pipeline/placement.h"

namespace mote {

// Bytes by kind, as they were taken from the arena. Added to.
struct ExecutionBytes {
  uint64_t plan_bytes = 0, activation_bytes = 0;
  Footprint footprint;
};

class Execution {
 public:
  // Takes everything from `arena`, and keeps views of the parts' table. While the arena measures, `offset_scratch`
  // [plan.values] is written to in place of a table of its own, and the parts may be without programs. On an error
  // nothing stays open, and *failed is the backend whose it is, or null.
  Status open(const Plan& plan, const PartWalk& parts, const SessionShape& shape, Arena& arena,
              std::span<uint64_t> offset_scratch, ExecutionBytes* bytes, Backend** failed);
  void close();

  // All parts in order over a batch, which counts as never begun when it is cancelled or fails. A flag that is set
  // before it begins counts too. *failed as above.
  Status run(const Batch& batch, const std::atomic<uint32_t>& cancel, Backend** failed);
  // False: a state cannot go back so far.
  bool truncate(uint32_t positions);
  void forget();

  std::span<const PlacedPart> parts() const { return parts_; }
  std::span<Executor* const> executors() const { return executors_; }   // [parts]
  const ValueMemory& values() const { return values_; }

 private:
  Status open_parts(PartWalk parts, const SessionShape& shape, Arena& arena, Footprint* footprint, Backend** failed);

  std::span<const PlacedPart> parts_;
  std::span<Executor*> executors_;
  ValueMemory values_;
};

}   // namespace mote
