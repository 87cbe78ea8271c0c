#include "core/pipeline/placement.h"

namespace mote {
namespace {

bool touches(const Step& step, State state) {
  return op_info(step.op).state != StateUse::none && step.state.id == state.id;
}

bool supports_all_of_state(Backend& backend, const Plan& plan, State state) {
  const StateInfo& info = plan.states[state.id];
  const size_t end = info.last_step < plan.steps.size() ? size_t{info.last_step} + 1 : plan.steps.size();
  for (const Step& step : plan.steps.first(end).subspan(info.first_step))
    if (touches(step, state) && !backend.supports(step, plan)) return false;
  return true;
}

Backend* choose(const Plan& plan, uint32_t index, std::span<Backend* const> backends) {
  const Step& step = plan.steps[index];
  const bool stateful = op_info(step.op).state != StateUse::none;
  for (Backend* backend : backends) {
    if (!backend->supports(step, plan)) continue;
    if (!stateful || supports_all_of_state(*backend, plan, step.state)) return backend;
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
  // The choice depends on the step alone (all steps of a state choose alike), so counting and filling agree.
  const auto n_steps = static_cast<uint32_t>(plan.steps.size());
  for (int pass = 0; pass < 2; ++pass) {
    Backend* previous = nullptr;
    uint32_t count = 0;
    for (uint32_t i = 0; i < n_steps; ++i) {
      Backend* backend = choose(plan, i, backends);
      if (backend == nullptr) {
        char text[160];
        const uint32_t length = describe_step(plan.steps[i], text, sizeof text);
        return Status::error(Code::unsupported, "no backend that was chosen runs {}", std::string_view(text, length));
      }
      if (backend != previous) {
        if (pass == 1) placement.parts[count] = {{&plan, i, 0}, backend, nullptr};
        ++count;
      }
      if (pass == 1) ++placement.parts[count - 1].part.count;
      previous = backend;
    }
    placement.parts_count = count;
    if (pass == 0) placement.parts = arena.take<PlacedPart>(count);
    if (placement.parts.empty()) break;
  }
  return placement;
}

}   // namespace mote
