#include "backends/reference/reference.h"

#include "backends/reference/executor.h"

namespace mote {
namespace {

// Weights are read where they lie, so a program holds nothing.
class ReferenceProgram final : public Program {};

class ReferenceBackend final : public Backend {
 public:
  void set_services(const BackendServices& services) { services_ = services; }

  const char* name() const override { return "reference"; }
  bool uses_host_values() const override { return true; }

  bool supports(const Step& step, const Plan&) const override {
    const bool has_matrix =
        step.op == Op::embed || step.op == Op::position_embed || step.op == Op::linear || step.op == Op::rnn;
    return !has_matrix || format_info(step.matrix.format).enabled;
  }

  Result<Program*> compile(const PlanPart& part, Arena& model_arena, Footprint*) override {
    for (const Step& step : part.steps()) {
      if (!supports(step, *part.plan))
        return Status::error(Code::unsupported, "the reference backend does not run {} on {}", op_info(step.op).name,
                             format_info(step.matrix.format).name);
      if (op_info(step.op).state != StateUse::none && !part.owns(step.state))
        return Status::error(Code::unsupported, "{} uses a state that another part keeps", op_info(step.op).name);
    }
    Program* program = model_arena.create<ReferenceProgram>();
    MOTE_RETURN_IF_ERROR(model_arena.status("the reference backend's program"));
    return program;
  }

  Result<Executor*> open(const PlanPart& part, Program*, const SessionShape& shape, const ValueMemory& values,
                         Arena& session_arena, Footprint* footprint) override {
    ReferenceExecutor measured;   // stands in while there is no memory
    ReferenceExecutor* made = session_arena.create<ReferenceExecutor>();
    ReferenceExecutor& executor = made == nullptr ? measured : *made;
    MOTE_RETURN_IF_ERROR(executor.layout(part, shape, values, services_.parallel, session_arena, footprint));
    return static_cast<Executor*>(made);
  }

 private:
  BackendServices services_;
};

}   // namespace

Result<Backend*> create_reference_backend(const BackendServices& services, Arena& engine_arena) {
  ReferenceBackend* backend = engine_arena.create<ReferenceBackend>();
  MOTE_RETURN_IF_ERROR(engine_arena.status("the reference backend"));
  if (backend != nullptr) backend->set_services(services);
  return static_cast<Backend*>(backend);
}

}   // namespace mote
