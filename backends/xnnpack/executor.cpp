#include "backends/xnnpack/executor.h"

#include <array>

namespace mote {
namespace {

// By Op; null where the op has no row.
constexpr auto kRunners = [] {
  std::array<XnnRunner, kOpCount> runners{};
#define MOTE_XNNPACK_RUNS(name) runners[static_cast<uint8_t>(Op::name)] = xnn_run_##name;
#include "backends/xnnpack/runners.inc"
#undef MOTE_XNNPACK_RUNS
  return runners;
}();

bool supports_matrix(const Matrix& matrix) {
  const FormatInfo& info = format_info(matrix.format);
  return info.enabled && matrix.columns % info.block_values == 0;
}

bool supports_state(const Step& step, const Plan& plan) {
  if (step.state.id >= plan.states.size()) return false;
  const StateInfo& state = plan.states[step.state.id];
  if (state.n_kv_heads == 0 || state.key_dim == 0 || state.value_dim == 0) return false;
  if (step.op == Op::append) return true;
  const AttentionAttributes& attention = step.attributes.attention;
  return attention.n_heads != 0 && attention.n_heads % state.n_kv_heads == 0 && attention.sees == Sees::causal &&
         !step.vector.exists();
}

}   // namespace

bool xnn_supports(const Step& step, const Plan& plan) {
  if (kRunners[static_cast<uint8_t>(step.op)] == nullptr || step.phase != Phase::decode) return false;
  switch (step.op) {
    case Op::embed:
    case Op::position_embed:   // sines and cosines have no matrix
      return step.matrix.rows != 0 && supports_matrix(step.matrix) && !step.bias.exists();
    case Op::linear:   // sums of int8 products are int32 in XNNPACK: 2^16 of at most 255 * 127 fit
      return supports_matrix(step.matrix) && (!runs_quantized(step.matrix.format) || step.matrix.columns <= 65536);
    case Op::rope:
      return step.attributes.rope.n_rotated % 2 == 0 && step.attributes.rope.n_rotated <= step.attributes.rope.head_dim;
    case Op::append:
    case Op::attention:
      return supports_state(step, plan);
    case Op::activate:
    case Op::gate:
      return step.attributes.activate.function == Activation::silu ||
             step.attributes.activate.function == Activation::relu;
    default:
      return true;
  }
}

Status XnnExecutor::run(const Batch& batch, CancelFlag cancel) {
  FirstNan first_nan;
  pool = pool_on(parallel.on_at_most(batch.lanes));
  for (uint32_t i = 0; i < part.count; ++i) {
    if (cancel.requested()) return Status::error(Code::cancelled, "cancelled");
    const StepContext context = {*this, program->steps[i], i, batch, first_nan};
    MOTE_RETURN_IF_ERROR(kRunners[static_cast<uint8_t>(context.step().op)](context));
  }
  return first_nan.status();
}

Status XnnExecutor::begin(uint32_t first_position, uint32_t rows) {
  if (rows > shape.max_batch)
    return Status::error(Code::invalid_argument, "a batch of {} rows, the session was opened for {}", rows,
                         shape.max_batch);
  if (uint64_t{first_position} + rows > shape.context)
    return Status::error(Code::context_full, "positions {} to {} do not fit in a context of {}", first_position,
                         uint64_t{first_position} + rows, shape.context);
  bool has_state = false;   // without one, there is nothing that could be missing
  for (const XnnKvState& state : states) has_state = has_state || state.exists();
  if (first_position > length_ && has_state)
    return Status::error(Code::wrong_state, "a batch begins at position {}, but only {} are there", first_position,
                         length_);
  pending_first_ = first_position;
  pending_rows_ = rows;
  if (first_position < length_) length_ = first_position;
  return {};
}

void XnnExecutor::commit() {
  length_ = pending_first_ + pending_rows_;
  pending_rows_ = 0;
}

// Rows that were written stand at positions that are not in use.
void XnnExecutor::discard() {
  length_ = pending_first_;
  pending_rows_ = 0;
}

Status XnnExecutor::truncate(uint32_t positions) {
  if (positions < length_) length_ = pending_first_ = positions, pending_rows_ = 0;
  return {};
}

Status XnnExecutor::check_row(State state, uint32_t position, size_t bytes) const {
  if (state.id >= states.size() || !states[state.id].exists())
    return Status::error(Code::invalid_argument, "state {} is not one of this part", unsigned{state.id});
  if (bytes != states[state.id].row_bytes())
    return Status::error(Code::invalid_argument, "a row of layer {} is {} bytes, the span has {}",
                         states[state.id].info().layer, states[state.id].row_bytes(), bytes);
  if (position >= shape.context)
    return Status::error(Code::invalid_argument, "position {} is outside a context of {}", position, shape.context);
  return {};
}

Status XnnExecutor::export_row(State state, uint32_t position, std::span<uint8_t> to) {
  MOTE_RETURN_IF_ERROR(check_row(state, position, to.size()));
  if (position >= length_)
    return Status::error(Code::wrong_state, "layer {} does not hold position {}, only those before {}",
                         states[state.id].info().layer, position, length_);
  states[state.id].export_row(position, to.data());
  return {};
}

Status XnnExecutor::import_row(State state, uint32_t position, std::span<const uint8_t> from) {
  MOTE_RETURN_IF_ERROR(check_row(state, position, from.size()));
  states[state.id].import_row(position, from.data());
  if (position >= length_) length_ = position + 1;
  return {};
}

}   // namespace mote
