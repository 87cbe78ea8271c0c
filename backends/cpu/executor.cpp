#include "backends/cpu/program.h"

#include <array>
#include <cstring>

namespace mote {

namespace {

// By Op; null where the op has no row.
constexpr auto kRunners = [] {
  std::array<StepRunner, kOpCount> runners{};
#define MOTE_CPU_RUNS(name) runners[static_cast<uint8_t>(Op::name)] = run_##name;
#include "backends/cpu/runners.inc"
#undef MOTE_CPU_RUNS
  return runners;
}();

Status run_step(const PreparedStep& prepared, const RunContext& context) {
  return kRunners[static_cast<uint8_t>(prepared.step->op)](prepared, context);
}

// A batch that is observed runs step by step, so that each op has its own time.
bool runs_fused(const PreparedStep& first, const RunContext& context) {
  return first.step->op == Op::linear && context.batch.observer == nullptr &&
         context.rows(first.step->output) <= kFusedRows;
}

// One region: the matrices, with what takes their columns. What goes by rows is left to this thread.
Status run_group(const PreparedStep& first, const RunContext& context) {
  RunContext fused = context;
  fused.fused = true;
  MOTE_RETURN_IF_ERROR(run_linear(first, fused));
  const RunContext alone = context.on_one_lane();
  const uint32_t in_region = first.together + (first.by_columns ? 1 : 0);
  for (const PreparedStep& prepared : std::span(&first, first.group).subspan(in_region))
    MOTE_RETURN_IF_ERROR(run_step(prepared, alone));
  return {};
}

}   // namespace

bool has_runner(Op op) { return kRunners[static_cast<uint8_t>(op)] != nullptr; }

Status CpuExecutor::run(const Batch& batch, CancelFlag cancel) {
  if (batch.phase == Phase::encode && batch.tokens.size() > shape.max_batch)   // of the other phase `begin` asks
    return Status::error(Code::invalid_argument, "an input of {} rows, the session was opened for {}",
                         batch.tokens.size(), shape.max_batch);
  FirstNan first_nan;
  const RunContext context = {
      batch, values, parallel.on_at_most(batch.lanes), scratch, states, recurrent, shape.kv_type, first_nan, cancel};
  const std::span<const PreparedStep> steps = program->steps;
  for (size_t first = 0, next = 0; first < steps.size(); first = next) {
    const bool fused = runs_fused(steps[first], context);
    next = first + (fused ? steps[first].group : steps[first].together);
    if (steps[first].step->phase != batch.phase) continue;
    MOTE_RETURN_IF_ERROR(context.not_cancelled());
    MOTE_RETURN_IF_ERROR((fused ? run_group : run_step)(steps[first], context));
    batch.step_ended(*steps[first].step);
  }
  return first_nan.status();
}

bool CpuExecutor::has_states() const {
  for (const KvState& state : states)
    if (state.exists()) return true;
  for (const RecurrentState& state : recurrent)
    if (state.exists()) return true;
  return false;
}

Status CpuExecutor::begin(uint32_t first_position, uint32_t rows) {
  if (rows > shape.max_batch)
    return Status::error(Code::invalid_argument, "a batch of {} rows, the session was opened for {}", rows,
                         shape.max_batch);
  if (uint64_t{first_position} + rows > shape.context)
    return Status::error(Code::context_full, "positions {} to {} do not fit in a context of {}", first_position,
                         uint64_t{first_position} + rows, shape.context);
  if (first_position > length_ && has_states())   // without any, there is nothing that could be missing
    return Status::error(Code::wrong_state, "a batch begins at position {}, but only {} are there", first_position,
                         length_);
  if (first_position < length_) MOTE_RETURN_IF_ERROR(truncate(first_position));
  pending_first_ = first_position;
  pending_rows_ = rows;
  for (KvState& state : states)
    if (state.exists() && state.info().phase == Phase::decode) state.overwrite_up_to(first_position + rows);
  return {};
}

void CpuExecutor::commit() {
  length_ = pending_first_ + pending_rows_;
  for (RecurrentState& state : recurrent)
    if (state.exists() && pending_rows_ != 0) state.commit();
  pending_rows_ = 0;
}

// Rows that were written stand at positions that are not in use; a ring has lost only what lay before every window.
void CpuExecutor::discard() {
  length_ = pending_first_;
  pending_rows_ = 0;
}

Status CpuExecutor::truncate(uint32_t positions) {
  if (positions >= length_) return {};
  for (const KvState& state : states) {
    if (state.exists() && !state.can_continue_at(positions))
      return Status::error(
          Code::wrong_state,
          "layer {} keeps positions from {} on, which is too late to go on at position {} with a window of {}",
          state.info().layer, state.held_from(), positions, state.info().window);
  }
  for (const RecurrentState& state : recurrent) {
    if (state.exists() && state.info().phase == Phase::decode && positions != 0)
      return Status::error(Code::wrong_state,
                           "layer {} keeps the vector behind position {} alone, and cannot go on at position {}",
                           state.info().layer, length_ - 1, positions);
  }
  for (KvState& state : states)
    if (state.exists()) state.truncate(positions);
  length_ = positions;
  pending_first_ = positions;
  pending_rows_ = 0;
  return {};
}

Status CpuExecutor::check_row(State state, uint32_t position, size_t bytes) const {
  if (state.id >= states.size() || (!states[state.id].exists() && !recurrent[state.id].exists()))
    return Status::error(Code::invalid_argument, "state {} is not one of this part", unsigned{state.id});
  const StateInfo& info = recurrent[state.id].exists() ? recurrent[state.id].info() : states[state.id].info();
  if (info.phase == Phase::encode)
    return Status::error(Code::invalid_argument, "state {} holds an encoder's input, which has no rows to hand over",
                         unsigned{state.id});
  if (bytes != state_row_bytes(info, shape.kv_type))
    return Status::error(Code::invalid_argument, "a row of layer {} is {} bytes, the span has {}", info.layer,
                         state_row_bytes(info, shape.kv_type), bytes);
  if (position >= shape.context)
    return Status::error(Code::invalid_argument, "position {} is outside a context of {}", position, shape.context);
  return {};
}

Status CpuExecutor::export_row(State state, uint32_t position, std::span<uint8_t> to) {
  MOTE_RETURN_IF_ERROR(check_row(state, position, to.size()));
  RecurrentState& vector = recurrent[state.id];
  const KvState& rows = states[state.id];
  const uint32_t from = vector.exists() ? length_ - (length_ != 0 ? 1 : 0) : rows.held_from();
  if (position >= length_ || position < from)
    return Status::error(Code::wrong_state, "layer {} does not hold position {}: it keeps {} to {}",
                         (vector.exists() ? vector.info() : rows.info()).layer, position, from, length_);
  if (vector.exists())
    std::memcpy(to.data(), vector.last(), to.size());
  else
    rows.export_row(position, to.data());
  return {};
}

Status CpuExecutor::import_row(State state, uint32_t position, std::span<const uint8_t> from) {
  MOTE_RETURN_IF_ERROR(check_row(state, position, from.size()));
  RecurrentState& vector = recurrent[state.id];
  if (vector.exists()) {
    vector.import_row(from.data());
  } else {
    states[state.id].enter(position, 1);
    states[state.id].import_row(position, from.data());
    states[state.id].overwrite_up_to(position + 1);
  }
  if (position >= length_) length_ = position + 1;
  return {};
}

}   // namespace mote
