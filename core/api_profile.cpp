// mote_dev.h: what each step of a session takes.
#include "core/mote_dev.h"
#include "core/ops/step_cost.h"
#include "core/session.h"
#include "platform/clock.h"

namespace mote {
namespace {

void add_costs(void* self, const PlanPart& part, const Batch& batch) {
  SessionProfile& profile = *static_cast<SessionProfile*>(self);
  for (uint32_t index = part.first; index - part.first < part.count; ++index) {
    const Step& step = profile.plan->steps[index];
    if (step.phase != batch.phase) continue;
    const StepCost cost = cost_of(step, *profile.plan, batch, profile.kv_type);
    mote_dev_step_profile& sum = profile.steps[index];
    ++sum.batches;
    sum.weight_bytes += cost.weight_bytes;
    sum.state_bytes += cost.state_bytes;
    sum.value_bytes += cost.value_bytes;
    sum.int8_operations += cost.int8_operations;
    sum.f32_operations += cost.f32_operations;
  }
  profile.since = monotonic_nanoseconds();
}

void add_time(void* self, const Step& step) {
  SessionProfile& profile = *static_cast<SessionProfile*>(self);
  const uint64_t now = monotonic_nanoseconds();
  profile.steps[static_cast<size_t>(&step - profile.plan->steps.data())].nanoseconds += now - profile.since;
  profile.since = now;
}

Status set_profile(mote_session& session, mote_dev_step_profile* steps, uint32_t count) {
  const Plan& plan = session.model->plan;
  if (steps != nullptr && count != plan.steps.size())
    return Status::error(Code::invalid_argument, "room for the profile of {} steps, the plan has {}", count,
                         plan.steps.size());
  session.profile = {{&session.profile, add_costs, add_time}, {steps, count}, &plan, session.sequence->kv_type(), 0};
  session.sequence->observe(steps == nullptr ? nullptr : &session.profile.observer);
  return {};
}

}   // namespace
}   // namespace mote

extern "C" mote_status mote_dev_profile(mote_session* session, mote_dev_step_profile* steps, uint32_t count,
                                        mote_error* error) {
  const mote::SessionCall call(session);
  return mote::report(call.status().ok() ? mote::set_profile(*session, steps, count) : call.status(), error);
}
