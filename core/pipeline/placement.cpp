#include "core/pipeline/placement.h"

namespace mote {
namespace {

// Behind the steps from `index` on that go to one backend together: one step, or all from the first that uses a state
// to the last, with what lies between them. A part keeps its states to itself, so they must be one part.
size_t end_of_group(const Plan& plan, size_t index) {
  size_t end = index + 1;
  for (size_t i = index; i < end; ++i) {
    const Step& step = plan.steps[i];
    if (op_info(step.op).state == StateUse::none) continue;
    const size_t last = plan.states[step.state.id].last_step;
    if (last >= end) end = last < plan.steps.size() ? last + 1 : plan.steps.size();
  }
  return end;
}

Backend* choose(const Plan& plan, size_t begin, size_t end, std::span<Backend* const> backends, BackendSet excluded) {
  for (size_t i = 0; i < backends.size(); ++i) {
    if (i < kMaxBackends && (excluded >> i & 1) != 0) continue;
    size_t supported = begin;
    while (supported < end && backends[i]->supports(plan.steps[supported], plan)) ++supported;
    if (supported == end) return backends[i];
  }
  return nullptr;
}

Status nobody_runs(const Plan& plan, size_t begin, size_t end, std::span<Backend* const> backends,
                   BackendSet excluded) {
  char text[160], last[160];
  for (size_t i = begin; i < end; ++i) {
    if (choose(plan, i, i + 1, backends, excluded) != nullptr) continue;
    const uint32_t length = describe_step(plan.steps[i], text, sizeof text);
    return Status::error(Code::unsupported, "no backend that was chosen runs {}", std::string_view(text, length));
  }
  const uint32_t length = describe_step(plan.steps[begin], text, sizeof text);
  const uint32_t last_length = describe_step(plan.steps[end - 1], last, sizeof last);
  return Status::error(Code::unsupported, "no backend that was chosen runs all steps of a state, from {} to {}",
                       std::string_view(text, length), std::string_view(last, last_length));
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

void describe_backends(std::span<const PlacedPart> parts, char* to, uint32_t capacity) {
  uint32_t length = 0;
  to[0] = 0;
  for (size_t i = 0; i < parts.size() && length + 1 < capacity; ++i) {
    bool is_new = true;
    for (size_t j = 0; j < i; ++j) is_new = is_new && parts[j].backend != parts[i].backend;
    const FormatArgument arguments[] = {FormatArgument(length == 0 ? "" : ", "),
                                        FormatArgument(parts[i].backend->name())};
    if (is_new) length += format_sentence(to + length, capacity - length, "{}{}", arguments, 2);
  }
}

BackendSet only(std::span<Backend* const> backends, const Backend& backend) {
  for (size_t i = 0; i < backends.size() && i < kMaxBackends; ++i)
    if (backends[i] == &backend) return BackendSet{1} << i;
  return 0;
}

bool PartWalk::next(PlacedPart* part) {
  if (plan_ == nullptr) {
    if (at_ < table_.size()) *part = table_[at_];
    return at_++ < table_.size();
  }
  if (at_ == plan_->steps.size()) return false;
  *part = {{plan_, static_cast<uint32_t>(at_), 0}, nullptr, nullptr};
  while (at_ < plan_->steps.size()) {
    const size_t end = end_of_group(*plan_, at_);
    Backend* const backend = choose(*plan_, at_, end, backends_, excluded_);
    const bool joins =
        part->part.count == 0 || (backend == part->backend && plan_->steps[at_].phase == plan_->steps[at_ - 1].phase);
    if (!joins) return true;
    if (backend == nullptr) {
      status_ = nobody_runs(*plan_, at_, end, backends_, excluded_);
      return false;
    }
    part->backend = backend;
    part->part.count += static_cast<uint32_t>(end - at_);
    at_ = end;
  }
  return true;
}

Result<Placement> place_steps(const Plan& plan, std::span<Backend* const> backends, Arena& arena, BackendSet excluded) {
  Placement placement;
  PartWalk counting(plan, backends, excluded), filling = counting;
  for (PlacedPart part; counting.next(&part);) ++placement.parts_count;
  MOTE_RETURN_IF_ERROR(counting.status());
  placement.parts = arena.take<PlacedPart>(placement.parts_count);
  for (PlacedPart& part : placement.parts) static_cast<void>(filling.next(&part));
  return placement;
}

Status compile_parts(PartWalk parts, std::span<PlacedPart> table, Arena& arena, Footprint* footprint,
                     Backend** failed) {
  PlacedPart part;
  for (size_t i = 0; parts.next(&part); ++i) {
    const Result<Program*> program = part.backend->compile(part.part, arena, footprint);
    const Status status = program.ok() ? arena.status("the model") : program.status();
    if (status.ok()) {
      if (i < table.size()) table[i].program = program.value();
      continue;
    }
    if (program.ok() && program.value() != nullptr) program.value()->close();
    for (PlacedPart& compiled : table) {
      if (compiled.program != nullptr) compiled.program->close();
      compiled.program = nullptr;
    }
    *failed = part.backend;
    return status;
  }
  return parts.status();
}

}   // namespace mote
