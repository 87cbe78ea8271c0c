#include "core/pipeline/placement.h"

namespace mote {
namespace {

bool uses_state(const Step& step, const Plan& plan) {
  return op_info(step.op).state != StateUse::none && step.state.id < plan.states.size();
}

// A step that begins to use a state, with all steps up to the last that uses it, and those of states that begin among
// them: they stay together, so that whoever keeps the state runs everything that touches it. 1 for any other step.
uint32_t steps_together(const Plan& plan, uint32_t index) {
  uint32_t end = index + 1;
  for (uint32_t i = index; i < end; ++i) {
    if (!uses_state(plan.steps[i], plan)) continue;
    const uint32_t last = plan.states[plan.steps[i].state.id].last_step;
    if (last >= end) end = last < plan.steps.size() ? last + 1 : static_cast<uint32_t>(plan.steps.size());
  }
  return end - index;
}

Backend* choose(const Plan& plan, uint32_t index, uint32_t count, std::span<Backend* const> backends) {
  for (Backend* backend : backends) {
    bool runs_all = true;
    for (const Step& step : plan.steps.subspan(index, count)) runs_all = runs_all && backend->supports(step, plan);
    if (runs_all) return backend;
  }
  return nullptr;
}

}   // namespace

uint32_t describe_step(const Step& step, char* to, uint32_t capacity) {
  const std::string_view op = op_info(step.op).name;
  if (step.matrix.rows != 0) {
    const FormatArgument arguments[] = {FormatArgument(op), FormatArgument(step.matrix.name),
                                        FormatArgument(format_info(step.matrix.format).name),
                                        FormatArgument(step.matrix.rows), FormatArgument(step.matrix.columns)};
    return format_sentence(to, capacity, "{} {} {} [{}, {}]", arguments, 5);
  }
  const FormatArgument arguments[] = {FormatArgument(op), FormatArgument(step.layer)};
  return format_sentence(to, capacity, step.layer == Step::kNoLayer ? "{}" : "{} of layer {}", arguments, 2);
}

Result<Placement> place_steps(const Plan& plan, std::span<Backend* const> backends, Arena& arena) {
  Placement placement;
  // The choice depends on the plan alone, so counting and filling agree.
  const auto n_steps = static_cast<uint32_t>(plan.steps.size());
  for (int pass = 0; pass < 2; ++pass) {
    Backend* previous = nullptr;
    uint32_t count = 0;
    for (uint32_t i = 0, together; i < n_steps; i += together) {
      together = steps_together(plan, i);
      Backend* backend = choose(plan, i, together, backends);
      if (backend == nullptr) {
        char text[160];
        const uint32_t length = describe_step(plan.steps[i], text, sizeof text);
        return Status::error(Code::unsupported, "no backend that was chosen runs {}", std::string_view(text, length));
      }
      if (backend != previous) {
        if (pass == 1) placement.parts[count] = {{&plan, i, 0}, backend, nullptr};
        ++count;
      }
      if (pass == 1) placement.parts[count - 1].part.count += together;
      previous = backend;
    }
    placement.parts_count = count;
    if (pass == 0) placement.parts = arena.take<PlacedPart>(count);
    if (placement.parts.empty()) break;
  }
  return placement;
}

}   // namespace mote
