// What a session does when a backend fails: it asks its model for the plan without that backend, opens executors on it
// in memory that nobody had planned for, and lets go of the old ones. Its tokens are the sequence's to run again.
#pragma once
#include "core/pipeline/compiled_plans.h"
#include "core/pipeline/execution.h"
#include "core/pipeline/reserve.h"

namespace mote {

// A backend that does not run a shape, and why.
struct Refusal {
  Backend* whose = nullptr;
  Status why;
};

// Measures an execution for this shape. Backends that do not run it are left out, as they will be when the session
// opens: *excluded grows by them, *first is the first one. offset_scratch [plan.values].
Status measure_execution(const CompiledPlans& plans, const SessionShape& shape, std::span<uint64_t> offset_scratch,
                         BackendSet* excluded, Arena& arena, ExecutionBytes* bytes, Refusal* first);

// What a session's fall-backs take from then on at worst, beginning without `excluded`. offset_scratch [plan.values].
uint64_t fallback_session_bytes(const CompiledPlans& plans, BackendSet excluded, const SessionShape& shape,
                                std::span<uint64_t> offset_scratch);

class Fallback {
 public:
  Fallback() = default;
  Fallback(CompiledPlans& plans, const CompiledPlan& now, bool allowed)
      : plans_(allowed ? &plans : nullptr), now_(&now) {}
  void set_reserve(const Reserve& reserve) { reserve_ = reserve; }
  void close() { reserve_.give_back(memory_); }

  enum class Moment { opening, running };
  // A failure that another backend may be free of. What the caller asked for wrongly, memory that ran out, a cancel and
  // a NaN would be the same everywhere; so would be what a backend that had opened calls unsupported.
  static bool may_go_on(const Status& why, const Backend* failed, Moment moment) {
    return leaves_part(why, failed) && (moment == Moment::opening || why.code() == Code::backend_failed);
  }
  // What the quote has found out, after an opening that failed in memory of its size: whether a backend of the plan
  // does not run this shape (else `whose` is null), and the bytes that an execution takes without it.
  Status measure_again(const SessionShape& shape, Refusal* refusal, uint64_t* execution_bytes);
  // True: `execution` is another one, without history, on backends that `failed` is not among. False: nothing has
  // changed; there is no other backend, or no memory for it, or the session does not want one. n_again: the tokens that
  // have to be run again, for the log.
  bool go_on(const Status& why, const Backend& failed, Moment moment, const SessionShape& shape, uint32_t n_again,
             Execution* execution);
  uint32_t count() const { return count_; }   // how often it did

 private:
  Status open(const CompiledPlan& plan, const SessionShape& shape, Execution* execution, Reserve::Block* memory,
              Backend** failed);

  CompiledPlans* plans_ = nullptr;
  const CompiledPlan* now_ = nullptr;
  Reserve reserve_;
  Reserve::Block memory_;   // of the executors, where they are not those that the session opened with
  uint32_t count_ = 0;
};

}   // namespace mote
