#include "core/pipeline/fallback.h"

namespace mote {

Status measure_execution(const CompiledPlans& plans, const SessionShape& shape, std::span<uint64_t> offset_scratch,
                         BackendSet* excluded, Arena& arena, ExecutionBytes* bytes, Refusal* first) {
  for (;;) {
    Arena attempt = arena;
    ExecutionBytes taken = *bytes;
    Execution execution;
    Backend* refuses = nullptr;
    const Status status =
        execution.open(plans.plan(), plans.walk(*excluded), shape, attempt, offset_scratch, &taken, &refuses);
    if (status.ok()) {
      arena = attempt;
      *bytes = taken;
      return {};
    }
    if (!leaves_part(status, refuses)) {   // nobody else takes its steps: what was said first is to be told
      const bool nobody = status.code() == Code::unsupported && refuses == nullptr && first->whose != nullptr;
      return nobody ? first->why : status;
    }
    if (first->whose == nullptr) *first = {refuses, status};
    *excluded |= only(plans.backends(), *refuses);
  }
}

uint64_t fallback_session_bytes(const CompiledPlans& plans, BackendSet excluded, const SessionShape& shape,
                                std::span<uint64_t> offset_scratch) {
  return plans.fallback_bytes(excluded, [&](BackendSet& without, Arena& sizes) {
    ExecutionBytes bytes;
    Refusal refusal;
    return measure_execution(plans, shape, offset_scratch, &without, sizes, &bytes, &refusal);
  });
}

Status Fallback::measure_again(const SessionShape& shape, Refusal* refusal, uint64_t* execution_bytes) {
  if (plans_ == nullptr || plans_->backends().size() < 2) return {};   // a quote had nobody to leave out
  const size_t n_values = plans_->plan().values.size();
  MOTE_ASSIGN_OR_RETURN(const Reserve::Block scratch, reserve_.take(n_values * sizeof(uint64_t), "the session"));
  const std::span<uint64_t> offsets(reinterpret_cast<uint64_t*>(scratch.at), n_values);
  Arena sizes;
  ExecutionBytes bytes;
  BackendSet excluded = now_->excluded;
  const Status status = measure_execution(*plans_, shape, offsets, &excluded, sizes, &bytes, refusal);
  reserve_.give_back(scratch);
  *execution_bytes = sizes.used_bytes();
  return status;
}

bool Fallback::go_on(const Status& why, const Backend& failed, Moment moment, const SessionShape& shape,
                     uint32_t n_again, Execution* execution) {
  if (plans_ == nullptr) return false;
  const CompiledPlan* from = now_;
  const Backend* leaves = &failed;
  // A backend that failed at work is given up by the whole model. One that did not open may have lacked what this
  // session alone wants, memory of a device for a long context for example.
  bool for_all = moment == Moment::running;
  for (;;) {
    Execution fresh;
    Reserve::Block memory;
    Backend* fails_too = nullptr;
    const Result<const CompiledPlan*> plan = plans_->without(*leaves, *from, for_all);
    const Status status = plan.ok() ? open(*plan.value(), shape, &fresh, &memory, &fails_too) : plan.status();
    if (status.ok()) {
      execution->close();
      reserve_.give_back(memory_);
      *execution = fresh;
      memory_ = memory;
      now_ = plan.value();
      ++count_;
      char names[96];
      describe_backends(now_->parts, names, sizeof names);
      if (moment == Moment::opening)
        plans_->log().tell("backend {} did not open the session ({}); it begins with {}", failed.name(), why,
                           std::string_view(names));
      else
        plans_->log().tell("backend {} failed ({}); the session goes on with {} and runs its {} tokens again",
                           failed.name(), why, std::string_view(names), n_again);
      return true;
    }
    if (status.code() != Code::unsupported || fails_too != nullptr)   // else there is nobody to be named
      plans_->log().tell("backend {} failed, and the next ones could not take over: {}", failed.name(), status);
    if (!leaves_part(status, fails_too)) return false;
    from = plan.value();
    leaves = fails_too;
    for_all = false;
  }
}

Status Fallback::open(const CompiledPlan& plan, const SessionShape& shape, Execution* execution, Reserve::Block* memory,
                      Backend** failed) {
  constexpr std::string_view kWhat = "the session on the next backends";
  const PartWalk parts(plan.parts);
  ExecutionBytes bytes;
  Arena sizes;
  const size_t n_values = plans_->plan().values.size();
  MOTE_ASSIGN_OR_RETURN(const Reserve::Block scratch, reserve_.take(n_values * sizeof(uint64_t), kWhat));
  const std::span<uint64_t> offsets(reinterpret_cast<uint64_t*>(scratch.at), n_values);
  Status status = execution->open(plans_->plan(), parts, shape, sizes, offsets, &bytes, failed);
  reserve_.give_back(scratch);
  if (!status.ok()) return status;
  MOTE_ASSIGN_OR_RETURN(*memory, reserve_.take(sizes.used_bytes(), kWhat));
  Arena arena(memory->at, memory->bytes);
  status = execution->open(plans_->plan(), parts, shape, arena, {}, &bytes, failed);
  if (!status.ok()) reserve_.give_back(*memory);
  return status;
}

}   // namespace mote
