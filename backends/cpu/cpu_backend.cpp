#include "backends/cpu/cpu_backend.h"

#include <algorithm>
#include <new>

#include "backends/cpu/program.h"
#include "platform/cpu_features.h"

namespace mote {
namespace {

class CpuBackend final : public Backend {
 public:
  const char* name() const override { return "cpu"; }
  Arithmetic arithmetic() const override { return {"canonical", kOrderVersion}; }
  bool uses_host_values() const override { return true; }
  bool supports(const Step& step, const Plan& plan) const override { return supports_step(step, plan); }
  Result<Program*> compile(const PlanPart& part, Arena& model_arena, Footprint* footprint) override;
  Result<Executor*> open(const PlanPart& part, Program* program, const SessionShape& shape, const ValueMemory& values,
                         Arena& session_arena, Footprint* footprint) override;

  Parallel parallel;
  IsaBits available = kIsaBaseline;
};

// Weights stay where they are: only the list of steps is taken.
Result<Program*> CpuBackend::compile(const PlanPart& part, Arena& model_arena, Footprint* /*footprint*/) {
  CpuProgram* program = model_arena.create<CpuProgram>();
  const std::span<PreparedStep> steps = model_arena.take<PreparedStep>(part.count);
  MOTE_RETURN_IF_ERROR(model_arena.status("the model on backend cpu"));
  MOTE_RETURN_IF_ERROR(prepare_steps(part, available, steps));
  if (program != nullptr) program->steps = steps;
  return static_cast<Program*>(program);
}

Result<Executor*> CpuBackend::open(const PlanPart& part, Program* program, const SessionShape& shape,
                                   const ValueMemory& values, Arena& session_arena, Footprint* footprint) {
  MOTE_RETURN_IF_ERROR(check_shape(part, shape));
  CpuExecutor* executor = session_arena.create<CpuExecutor>();
  const std::span<KvState> states = session_arena.take<KvState>(part.plan->states.size());
  const std::span<RecurrentState> recurrent = session_arena.take<RecurrentState>(part.plan->states.size());
  for (KvState& state : states) new (&state) KvState();
  for (RecurrentState& state : recurrent) new (&state) RecurrentState();
  const uint64_t before_states = session_arena.used_bytes();
  for (size_t id = 0; id < part.plan->states.size(); ++id) {
    KvState measured;
    RecurrentState measured_vector;
    const StateInfo& info = part.plan->states[id];
    if (!part.owns(State{static_cast<uint16_t>(id)})) continue;
    if (info.recurrent())
      (recurrent.empty() ? measured_vector : recurrent[id]).take(info, session_arena);
    else
      (states.empty() ? measured : states[id]).take(info, shape, session_arena);
  }
  if (footprint != nullptr) footprint->state_bytes += session_arena.used_bytes() - before_states;
  const StepScratch scratch = take_scratch(part, shape, parallel.lanes, available, session_arena);
  MOTE_RETURN_IF_ERROR(session_arena.status("the session on backend cpu"));
  if (executor == nullptr) return static_cast<Executor*>(nullptr);
  executor->program = static_cast<const CpuProgram*>(program);
  executor->values = values;
  executor->parallel = parallel;
  executor->scratch = scratch;
  executor->states = states;
  executor->recurrent = recurrent;
  executor->shape = shape;
  return static_cast<Executor*>(executor);
}

}   // namespace

Result<Backend*> create_cpu_backend(const BackendServices& services, Arena& engine_arena) {
  CpuBackend* backend = engine_arena.create<CpuBackend>();
  MOTE_RETURN_IF_ERROR(engine_arena.status("backend cpu"));
  if (backend != nullptr) {
    backend->parallel = services.parallel;
    backend->available = isa_bits(probe_cpu_features()) & services.instruction_sets;
  }
  return static_cast<Backend*>(backend);
}

}   // namespace mote
