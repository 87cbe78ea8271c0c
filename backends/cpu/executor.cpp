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

}   // namespace

bool has_runner(Op op) { return kRunners[static_cast<uint8_t>(op)] != nullptr; }

Status CpuExecutor::run(const Batch& batch, CancelFlag cancel) {
  if (batch.phase == Phase::encode && batch.tokens.size() > shape.max_batch)   // of the other phase `begin` asks
    return Status::error(Code::invalid_argument, "an input of {} rows, the session was opened for {}",
                         batch.tokens.size(), shape.max_batch);
  FirstNan first_nan;
  const Parallel lanes = parallel.on_at_most(batch.lanes);
  const RunContext context = {batch, values, lanes, scratch, states, recurrent, shape.kv_type, first_nan, cancel};
  for (const PreparedStep& prepared : program->steps) {
    if (prepared.step->phase != batch.phase || prepared.together == 0) continue;
    MOTE_RETURN_IF_ERROR(context.not_cancelled());
    MOTE_RETURN_IF_ERROR(kRunners[static_cast<uint8_t>(prepared.step->op)](prepared, context));
    batch.step_ended(*prepared.step);
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
