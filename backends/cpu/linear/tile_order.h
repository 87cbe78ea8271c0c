// What the tiles of `linear` share, whatever the instruction set: their weight rows, the order in which they visit
// units, the fetch of the next strip. Internal linkage throughout: see kernel_base.h.
#pragma once
#include "backends/cpu/kernel_base.h"
#include "backends/cpu/linear/linear.h"

namespace mote {
namespace {

// The partial sum that a tile comes to in step s of 16: bits reversed, so that the fold needs no more than four sums
// that wait for their partner, as the carries of a binary counter do.
constexpr uint32_t partial_of_step(uint32_t s) { return (s & 1) << 3 | (s & 2) << 1 | (s & 4) >> 1 | (s & 8) >> 3; }

// Where `count` weight rows from `first` on begin; from the end of the job on the last one again.
template <uint32_t count>
struct WeightRows {
  const uint8_t* at[count];
  WeightRows(const LinearJob& job, uint32_t first) {
    for (uint32_t r = 0; r < count; ++r)
      at[r] = job.weights + (first + r < job.end_row ? first + r : job.end_row - 1) * job.weight_row_bytes;
  }
};

// Units 0 .. units - 1 in the order in which a tile visits them.
template <class Visit>
MOTE_INLINE void visit_units(uint32_t units, Visit visit) {
  for (uint32_t step = 0; step < kLanes; ++step)
    for (uint32_t unit = partial_of_step(step); unit < units; unit += kLanes) visit(unit);
}

// Weights of the next strip on their way into L2, a few lines for each unit of arithmetic. Without it the unpacking of
// a strip waits for memory.
struct Ahead {
  const uint8_t* at = nullptr;
  uint32_t lines = 0;   // per step
  MOTE_INLINE void step() {
    for (uint32_t i = 0; i < lines; ++i, at += 64) __builtin_prefetch(at, 0, 2);
  }
};
// The share of panel `panel` of `panels`, taken in `steps` steps.
inline Ahead ahead_of(const uint8_t* next, size_t bytes, uint32_t panel, uint32_t panels, uint32_t steps) {
  const size_t all_steps = size_t{panels} * steps;
  const size_t lines = (bytes / 64 + all_steps - 1) / all_steps, offset = size_t{panel} * steps * lines * 64;
  return offset < bytes ? Ahead{next + offset, static_cast<uint32_t>(lines)} : Ahead{};
}

}   // namespace
}   // namespace mote
