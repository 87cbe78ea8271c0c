#include "backends/vulkan/vulkan_backend.h"

#include "backends/vulkan/executor.h"
#include "backends/vulkan/lowering.h"

namespace mote {
namespace {

// The largest row whose Values a shader can see, 64 rows at a time: then they can be cut anywhere (lowering.cpp).
bool fits(uint64_t columns, const DeviceLimits& limits) {
  return columns != 0 && columns * 4 * (limits.alignment_bytes / 4) <= limits.binding_bytes;
}

bool supports_state(const Step& step, const Plan& plan) {
  if (step.state.id >= plan.states.size()) return false;
  const StateInfo& state = plan.states[step.state.id];
  if (state.n_kv_heads == 0 || state.key_dim == 0 || state.value_dim == 0) return false;
  if (state.key_dim > MOTE_VK_MOST_HEAD_DIM || state.value_dim > MOTE_VK_MOST_HEAD_DIM) return false;
  if (step.op == Op::append) return true;
  const AttentionAttributes& attention = step.attributes.attention;
  return attention.n_heads != 0 && attention.n_heads % state.n_kv_heads == 0 && attention.sees == Sees::causal &&
         !step.vector.exists();
}

class VulkanBackend final : public Backend {
 public:
  const char* name() const override { return "vulkan"; }
  Arithmetic arithmetic() const override { return {device.arithmetic_name(), 1}; }
  bool uses_host_values() const override { return false; }
  bool supports(const Step& step, const Plan& plan) const override;
  Result<Program*> compile(const PlanPart& part, Arena& model_arena, Footprint* footprint) override;
  Result<Executor*> open(const PlanPart& part, Program* program, const SessionShape& shape, const ValueMemory& values,
                         Arena& session_arena, Footprint* footprint) override;
  void close() override { device.close(); }

  VulkanDevice device;
};

bool VulkanBackend::supports(const Step& step, const Plan& plan) const {
  if (step.phase != Phase::decode || (step.op == Op::embed && step.bias.exists())) return false;
  const DeviceLimits& limits = device.limits();
  for (uint32_t i = 0; i < op_info(step.op).n_inputs; ++i)
    if (!fits(step.inputs[i].columns, limits)) return false;
  if (step.op != Op::append && !fits(step.output.columns, limits)) return false;
  switch (step.op) {
    case Op::embed:
    case Op::position_embed:
    case Op::linear: {
      const FormatInfo& format = format_info(step.matrix.format);
      return format.enabled && step.matrix.columns % format.block_values == 0 &&
             matrix_layout(step.matrix, limits.binding_bytes).windows != 0;
    }
    case Op::rope:
      return step.attributes.rope.n_rotated % 2 == 0 && step.attributes.rope.n_rotated <= step.attributes.rope.head_dim;
    case Op::append:
    case Op::attention:
      return supports_state(step, plan);
    case Op::rms_norm:
      return step.output.columns <= uint64_t{norm_width(step)} * kMostGroups;
    case Op::activate:
    case Op::gate:
      return static_cast<uint32_t>(step.attributes.activate.function) < MOTE_VK_ACTIVATIONS;
    case Op::layer_norm:
    case Op::rope_angles:
    case Op::add:
    case Op::scale:
    case Op::softcap:
    case Op::take_rows:
      return true;
    default:   // one that came later
      return false;
  }
}

Result<Program*> VulkanBackend::compile(const PlanPart& part, Arena& model_arena, Footprint* footprint) {
  for (const Step& step : part.steps()) {
    const std::string_view op = op_info(step.op).name;
    if (!supports(step, *part.plan))
      return Status::error(Code::unsupported, "the vulkan backend does not run {} of this plan", op);
    if (op_info(step.op).state != StateUse::none && !part.owns(step.state))
      return Status::error(Code::unsupported, "{} uses a state that another part keeps", op);
  }
  VulkanProgram* program = model_arena.create<VulkanProgram>();
  MOTE_RETURN_IF_ERROR(VulkanProgram::layout(device, part, model_arena, program, footprint));
  return static_cast<Program*>(program);
}

Result<Executor*> VulkanBackend::open(const PlanPart& part, Program* program, const SessionShape& shape,
                                      const ValueMemory& values, Arena& session_arena, Footprint* footprint) {
  VulkanExecutor* executor = session_arena.create<VulkanExecutor>();
  MOTE_RETURN_IF_ERROR(VulkanExecutor::layout(device, part, static_cast<const VulkanProgram*>(program), shape, values,
                                              session_arena, executor, footprint));
  return static_cast<Executor*>(executor);
}

}   // namespace

// Measuring also looks for a device, so that a quote says what opening would say.
Result<Backend*> create_vulkan_backend_with(const VulkanOptions& options, Arena& engine_arena) {
  VulkanBackend* backend = engine_arena.create<VulkanBackend>();
  MOTE_RETURN_IF_ERROR(engine_arena.status("backend vulkan"));
  if (backend != nullptr) {
    MOTE_RETURN_IF_ERROR(backend->device.open(options));
  } else {
    VulkanDevice device;
    MOTE_RETURN_IF_ERROR(device.probe(options));
  }
  return static_cast<Backend*>(backend);
}

Result<Backend*> create_vulkan_backend(const BackendServices& /*services*/, Arena& engine_arena) {
  return create_vulkan_backend_with({}, engine_arena);
}

}   // namespace mote
