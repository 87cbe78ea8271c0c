#include "core/pipeline/compiled_plans.h"

namespace mote {

void CompiledPlans::begin(const Plan& plan, std::span<Backend* const> backends, const CompiledPlan& first,
                          const Log& log) {
  plan_ = &plan;
  backends_ = backends;
  first_ = first;
  log_ = log;
  current_.store(&first_, std::memory_order_release);
}

void CompiledPlans::close() {
  for (CompiledPlan* each = &first_; each != nullptr;) {
    CompiledPlan* const next = each->next;   // the others lie in the memory that is given back
    const Reserve::Block memory = each->memory;
    for (const PlacedPart& part : each->parts)
      if (part.program != nullptr) part.program->close();
    reserve_.give_back(memory);
    each = next;
  }
  first_ = {};
}

Result<const CompiledPlan*> CompiledPlans::without(const Backend& failed, const CompiledPlan& from, bool for_all) {
  const BackendSet bit = only(backends_, failed);
  if (bit == 0) return Status::error(Code::unsupported, "backend {} is not of this engine", failed.name());
  if (!lock_.take()) return Status::error(Code::busy, "another session compiles what is to take over");
  const BackendSet known = from.excluded | current().excluded | cannot_compile_;
  const Result<const CompiledPlan*> found = find_or_compile(known | bit);
  // It excludes all that the current one does, so sessions never go back to a backend that was given up for all.
  if (found.ok() && for_all) current_.store(found.value(), std::memory_order_release);
  lock_.let_go();
  return found;
}

Result<const CompiledPlan*> CompiledPlans::find_or_compile(BackendSet excluded) {
  for (;;) {
    for (const CompiledPlan* each = &first_; each != nullptr; each = each->next)
      if (each->excluded == excluded) return each;
    Backend* failed = nullptr;
    const Result<const CompiledPlan*> compiled = compile(excluded, &failed);
    if (!leaves_part(compiled.status(), failed)) return compiled;
    log_.tell("backend {} failed to compile the plan that was to take over: {}", failed->name(), compiled.status());
    cannot_compile_ |= only(backends_, *failed);
    excluded |= cannot_compile_;
  }
}

Status CompiledPlans::measure(BackendSet* excluded, Arena& sizes) const {
  for (;;) {
    Arena attempt = sizes;
    CompiledPlan* made = nullptr;
    Backend* refuses = nullptr;
    const Status status = layout(*excluded, attempt, &made, &refuses);
    if (status.ok()) sizes = attempt;
    if (!leaves_part(status, refuses)) return status;
    *excluded |= only(backends_, *refuses);
  }
}

Status CompiledPlans::layout(BackendSet excluded, Arena& arena, CompiledPlan** made, Backend** failed) const {
  Footprint footprint;
  CompiledPlan* const compiled = arena.create<CompiledPlan>();
  MOTE_ASSIGN_OR_RETURN(const Placement placement, place_steps(*plan_, backends_, arena, excluded));
  MOTE_RETURN_IF_ERROR(arena.status("the model"));
  const CompiledPlan plan = {excluded, placement.parts, nullptr, {}};
  MOTE_RETURN_IF_ERROR(compile_parts(walk(plan), plan.parts, arena, &footprint, failed));
  if (compiled != nullptr) *compiled = plan;
  *made = compiled;
  return {};
}

Result<const CompiledPlan*> CompiledPlans::compile(BackendSet excluded, Backend** failed) {
  Arena sizes;
  CompiledPlan* made = nullptr;
  MOTE_RETURN_IF_ERROR(layout(excluded, sizes, &made, failed));
  MOTE_ASSIGN_OR_RETURN(const Reserve::Block memory, reserve_.take(sizes.used_bytes(), "the model without a backend"));
  Arena arena(memory.at, memory.bytes);
  const Status status = layout(excluded, arena, &made, failed);
  if (!status.ok()) {
    reserve_.give_back(memory);
    return status;
  }
  made->next = first_.next;
  made->memory = memory;
  first_.next = made;
  return static_cast<const CompiledPlan*>(made);
}

bool CompiledPlans::exclude_most_preferred(BackendSet* excluded) const {
  BackendSet in_use = 0;
  PartWalk parts = walk(*excluded);
  for (PlacedPart part; parts.next(&part);) in_use |= only(backends_, *part.backend);
  *excluded |= in_use & (~in_use + 1);   // the lowest bit: the earliest in the list
  return in_use != 0;
}

}   // namespace mote
