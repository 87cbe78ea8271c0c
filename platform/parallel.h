// The seam between a backend and whatever runs work on several cores: mote's pool, the host's own
// parallel_for, or nothing at all.
#pragma once
#include <cstdint>
#include <type_traits>

namespace mote {

// `task(context, lane)` is one lane's share of a region.
using ParallelTask = void (*)(void* context, uint32_t lane);

// Runs `task` once for every lane 0 .. lanes - 1 and returns when all are done. Lanes may run at the same
// time or one after the other on one thread: a task never waits for another lane. Results must not depend on
// `lanes` nor on who runs which lane.
struct Parallel {
  void* self = nullptr;
  void (*run_region)(void* self, uint32_t lanes, ParallelTask task, void* context) = nullptr;
  uint32_t lanes = 1;

  // The same threads, of which a region takes at most `most`; 0: all.
  Parallel on_at_most(uint32_t most) const { return {self, run_region, most == 0 || most > lanes ? lanes : most}; }

  void run(ParallelTask task, void* context) const {
    if (run_region != nullptr) return run_region(self, lanes, task, context);
    for (uint32_t lane = 0; lane < lanes; ++lane) task(context, lane);
  }
  // region([&](uint32_t lane) { ... });
  template <class F>
  void region(F&& body) const {
    run([](void* context, uint32_t lane) { (*static_cast<std::remove_reference_t<F>*>(context))(lane); }, &body);
  }
};

}   // namespace mote
