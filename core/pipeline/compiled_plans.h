// What a model has compiled: its plan on the backends of the engine's list, and, once one of them has failed, on those
// that are left. Each such placement is compiled by the first session that wants it, kept, and shared by all others.
#pragma once
#include <atomic>
#include <span>

#include "core/base/arena.h"
#include "core/pipeline/placement.h"
#include "core/pipeline/reserve.h"
#include "platform/sleeping_lock.h"

namespace mote {

// Where lines worth telling go; from any thread.
struct Log {
  void (*say)(void* user, const char* line) = nullptr;
  void* user = nullptr;
  // A sentence with {} as in Status::error, longer ones cut.
  template <class... Arguments>
  void tell(std::string_view pattern, const Arguments&... arguments) const {
    const FormatArgument list[] = {FormatArgument(arguments)..., FormatArgument(0)};
    char line[512];
    if (say == nullptr) return;
    format_sentence(line, sizeof line, pattern, list, sizeof...(arguments));
    say(user, line);
  }
};

struct CompiledPlan {
  BackendSet excluded = 0;
  std::span<PlacedPart> parts;   // empty: only measured
  CompiledPlan* next = nullptr;
  Reserve::Block memory;   // what it lies in; of the first: the model's own
};

class CompiledPlans {
 public:
  // `first` stands for the parts that were compiled when the model opened, or for those of a model that is only
  // measured. What is pointed at must outlive this.
  void begin(const Plan& plan, std::span<Backend* const> backends, const CompiledPlan& first, const Log& log);
  void set_reserve(const Reserve& reserve) { reserve_ = reserve; }
  void close();

  const Plan& plan() const { return *plan_; }
  std::span<Backend* const> backends() const { return backends_; }
  const Log& log() const { return log_; }
  PartWalk walk(BackendSet excluded) const { return PartWalk(*plan_, backends_, excluded); }
  PartWalk walk(const CompiledPlan& plan) const {
    return plan.parts.empty() ? walk(plan.excluded) : PartWalk(plan.parts);
  }

  // Where a session that opens now begins.
  const CompiledPlan& current() const { return *current_.load(std::memory_order_acquire); }

  // `from` without the backend that has failed under it, and without all that this model knows to fail; compiled now,
  // if it is not there yet. `for_all`: sessions that open from now on begin there. It waits for another thread that
  // compiles. unsupported when what is left does not run each step.
  Result<const CompiledPlan*> without(const Backend& failed, const CompiledPlan& from, bool for_all);

  // What fall-backs take at worst, all added up: the backends that are in use fail one after the other, in the order of
  // preference. measure(excluded, arena) measures one placement, and adds to `excluded` whom it had to leave out; what
  // cannot be measured adds nothing.
  template <class Measure>
  uint64_t fallback_bytes(BackendSet excluded, Measure measure) const {
    uint64_t bytes = 0;
    while (exclude_most_preferred(&excluded)) {
      Arena arena;
      if (measure(excluded, arena).ok()) bytes += arena.used_bytes();
    }
    return bytes;
  }
  // What `without` would take for one of them; *excluded grows by the backends that do not compile it.
  Status measure(BackendSet* excluded, Arena& sizes) const;
  // Takes one of them from the arena, as `without` will; while that measures, *made is null.
  Status layout(BackendSet excluded, Arena& arena, CompiledPlan** made, Backend** failed) const;

 private:
  bool exclude_most_preferred(BackendSet* excluded) const;   // false: nobody is left
  Result<const CompiledPlan*> find_or_compile(BackendSet excluded);
  Result<const CompiledPlan*> compile(BackendSet excluded, Backend** failed);

  const Plan* plan_ = nullptr;
  std::span<Backend* const> backends_;
  Log log_;
  CompiledPlan first_;
  std::atomic<const CompiledPlan*> current_{nullptr};
  SleepingLock lock_;   // for what follows
  Reserve reserve_;
  BackendSet cannot_compile_ = 0;
};

}   // namespace mote
