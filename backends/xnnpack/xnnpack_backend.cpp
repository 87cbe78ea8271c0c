#include "backends/xnnpack/xnnpack_backend.h"

#include <new>

#include "backends/xnnpack/executor.h"
#include "platform/cpu_features.h"

namespace mote {
namespace {

// What XNNPACK takes of the heap for one operator: its struct xnn_operator. That holds two tables (GEMM and IGEMM) of a
// kernel for each number of rows up to 32, and each kernel has a function for every kind of core that XNNPACK tells
// apart: three on ARM, of which iOS uses one, else one. The rest are numbers, and 158 pointers and sizes. Of the pinned
// commit: 2032 bytes on x86-64, 3072 on aarch64, 1672 on 32-bit ARM. An eighth more is for an installed one of another
// commit and for what an allocator rounds up.
#if defined(__aarch64__) || defined(__arm__)
constexpr uint64_t kKindsOfCore = 3;
#else
constexpr uint64_t kKindsOfCore = 1;
#endif
constexpr uint64_t kOperatorStructBytes = 2 * 32 * kKindsOfCore * sizeof(void*) + 158 * sizeof(void*) + 272;
constexpr uint64_t kOperatorBytes = kOperatorStructBytes / 8 * 9;

// XNNPACK chooses its kernels by these.
uint32_t number_of(const CpuFeatures& features) {
  uint32_t number = 0;
  for (const bool has :
       {features.sse2, features.ssse3, features.avx, features.avx2, features.fma, features.f16c, features.avx512f,
        features.avx512bw, features.avx512vl, features.avx512dq, features.avx512vnni, features.avx512vbmi,
        features.avx512bf16, features.avx_vnni, features.neon, features.dotprod, features.i8mm})
    number = number << 1 | (has ? 1 : 0);
  return number;
}

class XnnpackBackend final : public Backend {
 public:
  const char* name() const override { return "xnnpack"; }
  Arithmetic arithmetic() const override { return {arithmetic_name, 2}; }
  bool uses_host_values() const override { return true; }
  uint32_t over_read_bytes() const override { return kOverReadBytes; }
  bool supports(const Step& step, const Plan& plan) const override { return xnn_supports(step, plan); }
  Result<Program*> compile(const PlanPart& part, Arena& model_arena, Footprint* footprint) override;
  Result<Executor*> open(const PlanPart& part, Program* program, const SessionShape& shape, const ValueMemory& values,
                         Arena& session_arena, Footprint* footprint) override;

  Parallel parallel;
  char arithmetic_name[24] = {};   // with the processor: other kernels give other bits
};

Status check_part(const PlanPart& part) {
  for (uint32_t i = 0; i < part.count; ++i) {
    const Step& step = part.steps()[i];
    const std::string_view op = op_info(step.op).name;
    if (!xnn_supports(step, *part.plan))
      return Status::error(Code::unsupported, "the xnnpack backend does not run step {} ({}) of this plan",
                           part.first + i, op);
    if (op_info(step.op).state != StateUse::none && !part.owns(step.state))
      return Status::error(Code::unsupported, "step {} ({}) uses a state that another part keeps", part.first + i, op);
  }
  return {};
}

// A quote does not fail for a backend: what XNNPACK can lack while it is asked for sizes is memory for an operator.
template <class Made>
Result<Made> unless_measuring(const Arena& arena, const Result<Made>& made) {
  if (!arena.measuring() || made.status().code() != Code::backend_failed) return made;
  return Status::error(Code::out_of_memory, "{}", made.status());
}

// The operators of the packing are gone again at the end; what stays lies in the arena.
Result<Program*> XnnpackBackend::compile(const PlanPart& part, Arena& model_arena, Footprint* /*footprint*/) {
  MOTE_RETURN_IF_ERROR(check_part(part));
  return unless_measuring(model_arena, compile_part(part, model_arena));
}

Result<Executor*> XnnpackBackend::open(const PlanPart& part, Program* program, const SessionShape& shape,
                                       const ValueMemory& values, Arena& session_arena, Footprint* footprint) {
  XnnExecutor* executor = session_arena.create<XnnExecutor>();
  const std::span<xnn_operator_t> operators = session_arena.take<xnn_operator_t>(part.count);
  const std::span<XnnKvState> states = session_arena.take<XnnKvState>(part.plan->states.size());
  for (XnnKvState& state : states) new (&state) XnnKvState();
  const uint64_t before_states = session_arena.used_bytes();
  for (size_t id = 0; id < part.plan->states.size(); ++id) {
    XnnKvState measured;
    if (part.owns(State{static_cast<uint16_t>(id)}))
      (states.empty() ? measured : states[id]).take(part.plan->states[id], shape, session_arena);
  }
  if (footprint != nullptr) {
    footprint->state_bytes += session_arena.used_bytes() - before_states;
    footprint->library_bytes += operator_count(part, parallel.lanes) * kOperatorBytes;
  }
  MOTE_ASSIGN_OR_RETURN(
      const SessionScratch scratch,
      unless_measuring(session_arena, take_session_scratch(part, shape, parallel.lanes, session_arena)));
  MOTE_RETURN_IF_ERROR(session_arena.status("the session on backend xnnpack"));
  if (executor == nullptr) return static_cast<Executor*>(nullptr);
  for (xnn_operator_t& op : operators) op = nullptr;
  executor->part = part;
  executor->program = static_cast<XnnProgram*>(program);
  executor->operators = operators;
  executor->scratch = scratch;
  executor->states = states;
  executor->shape = shape;
  executor->values = values;
  executor->parallel = parallel;
  executor->pool = pool_on(parallel);
  const Status status = executor->create_operators();
  if (!status.ok()) {
    executor->close();
    return status;
  }
  return static_cast<Executor*>(executor);
}

}   // namespace

Result<Backend*> create_xnnpack_backend(const BackendServices& services, Arena& engine_arena) {
  MOTE_RETURN_IF_XNN_FAILS(xnn_initialize, nullptr);
  XnnpackBackend* backend = engine_arena.create<XnnpackBackend>();
  MOTE_RETURN_IF_ERROR(engine_arena.status("backend xnnpack"));
  if (backend != nullptr) {
    backend->parallel = services.parallel;
    const FormatArgument arguments[] = {FormatArgument(number_of(probe_cpu_features()))};
    format_sentence(backend->arithmetic_name, sizeof backend->arithmetic_name, "xnnpack/{}", arguments, 1);
  }
  return static_cast<Backend*>(backend);
}

}   // namespace mote
