#include "backends/reference/executor.h"

#include <algorithm>

#include "core/base/bytes.h"
#include "core/base/checked.h"
#include "core/base/half.h"

namespace mote {

Status ReferenceExecutor::layout(const PlanPart& part, const SessionShape& shape, const ValueMemory& values,
                                 Parallel parallel, Arena& arena, Footprint* footprint) {
  part_ = part;
  shape_ = shape;
  values_ = values;
  all_lanes_ = parallel;
  const uint64_t start = arena.used_bytes();
  MOTE_RETURN_IF_ERROR(take_states(arena));
  if (footprint != nullptr) footprint->state_bytes += arena.used_bytes() - start;
  MOTE_RETURN_IF_ERROR(take_scratch(arena));
  return arena.status("the reference backend's session");
}

// f32 whatever the session's KV type, and every position, even where a window would allow a ring.
Status ReferenceExecutor::take_states(Arena& arena) {
  const Plan& plan = *part_.plan;
  states_ = arena.take<float*>(plan.states.size());
  for (float*& rows : states_) rows = nullptr;
  for (uint16_t id = 0; id < plan.states.size(); ++id) {
    if (!part_.owns(State{id})) continue;
    const StateInfo& info = plan.states[id];
    uint64_t columns = 0, count = 0;
    if (!checked_multiply(info.n_kv_heads, uint64_t{info.key_dim} + info.value_dim, &columns) ||
        !checked_multiply(columns, capacity_of(info, shape_), &count))
      return Status::error(Code::out_of_memory, "the keys and values of layer {} need more than 2^64 bytes",
                           info.layer);
    const std::span<float> rows = arena.take<float>(count);
    if (!states_.empty()) states_[id] = rows.data();
  }
  return {};
}

Status ReferenceExecutor::take_scratch(Arena& arena) {
  uint32_t linear_columns = 0, context = 0;
  for (const Step& step : part_.steps()) {
    if (step.op == Op::linear || step.op == Op::rnn) max_columns_ = std::max(max_columns_, step.matrix.columns);
    if (step.op == Op::position_embed) max_columns_ = std::max(max_columns_, step.output.columns);
    if (step.op == Op::linear) linear_columns = std::max(linear_columns, step.matrix.columns);
    if (step.op == Op::attention || step.op == Op::attention_weights) {
      context = std::max(context, capacity_of(part_.plan->states[step.state.id], shape_));
      max_value_dim_ = std::max(max_value_dim_, part_.plan->states[step.state.id].value_dim);
    }
  }
  transposed_ = arena.take<double>(uint64_t{linear_columns} * kGroup);
  weights_ = arena.take<float>(uint64_t{all_lanes_.lanes} * max_columns_);
  max_scores_ = context;
  scores_ = arena.take<double>(uint64_t{all_lanes_.lanes} * context);
  sums_ = arena.take<double>(uint64_t{all_lanes_.lanes} * max_value_dim_);
  return {};
}

Status ReferenceExecutor::check(const Batch& batch) const {
  if (batch.tokens.size() > shape_.max_batch)
    return Status::error(Code::invalid_argument, "a batch has {} rows, the session takes {}", batch.tokens.size(),
                         shape_.max_batch);
  if (batch.n_encoded > shape_.max_batch)
    return Status::error(Code::invalid_argument, "a batch reads {} encoded positions, the session has {}",
                         batch.n_encoded, shape_.max_batch);
  if (batch.phase == Phase::encode) return {};
  if (uint64_t{batch.first_position} + batch.tokens.size() > shape_.context)
    return Status::error(Code::context_full, "positions {} to {} do not fit a context of {}", batch.first_position,
                         batch.first_position + batch.tokens.size() - 1, shape_.context);
  if (batch.output_rows.size() > shape_.max_outputs)
    return Status::error(Code::invalid_argument, "a batch wants {} outputs, the session gives {}",
                         batch.output_rows.size(), shape_.max_outputs);
  for (const uint32_t row : batch.output_rows) {
    if (row >= batch.tokens.size())
      return Status::error(Code::invalid_argument, "output row {} is wanted of a batch of {}", row,
                           batch.tokens.size());
  }
  return {};
}

Status ReferenceExecutor::not_cancelled(const Step& step) const {
  return cancel_.requested() ? Status::error(Code::cancelled, "cancelled at {}", op_info(step.op).name) : Status();
}

Status ReferenceExecutor::run(const Batch& batch, CancelFlag cancel) {
  MOTE_RETURN_IF_ERROR(check(batch));
  first_nan_ = {};
  cancel_ = cancel;
  parallel_ = all_lanes_.on_at_most(batch.lanes);
  for (const Step& step : part_.steps()) {
    if (step.phase != batch.phase) continue;
    MOTE_RETURN_IF_ERROR(not_cancelled(step));
    MOTE_RETURN_IF_ERROR(run_step(step, batch));
    batch.step_ended(step);
  }
  return first_nan_.status();
}

Status ReferenceExecutor::run_step(const Step& step, const Batch& batch) {
  switch (step.op) {
#define MOTE_OP(name, inputs, state, in_place) \
  case Op::name:                               \
    return name(step, batch);
#include "core/ops/ops.inc"
#undef MOTE_OP
  }
  return Status::error(Code::unsupported, "the reference backend has no op number {}", static_cast<unsigned>(step.op));
}

// Every position has its own place and is written before it is read, so there is nothing to undo: `commit`, `discard`
// and `truncate` keep no books.
Status ReferenceExecutor::begin(uint32_t first_position, uint32_t rows) {
  if (rows > shape_.max_batch)
    return Status::error(Code::invalid_argument, "a batch has {} rows, the session takes {}", rows, shape_.max_batch);
  if (uint64_t{first_position} + rows > shape_.context)
    return Status::error(Code::context_full, "{} rows from position {} do not fit a context of {}", rows,
                         first_position, shape_.context);
  return {};
}

Status ReferenceExecutor::truncate(uint32_t positions) {
  if (positions > shape_.context)
    return Status::error(Code::invalid_argument, "cannot keep {} positions of a context of {}", positions,
                         shape_.context);
  return {};
}

Status ReferenceExecutor::check_row(State state, uint32_t position, size_t bytes) const {
  if (state.id >= states_.size() || states_[state.id] == nullptr)
    return Status::error(Code::invalid_argument, "state {} is not one of this part", unsigned{state.id});
  if (part_.plan->states[state.id].phase == Phase::encode)
    return Status::error(Code::invalid_argument, "state {} holds an encoder's input, which has no rows to hand over",
                         unsigned{state.id});
  if (position >= shape_.context)
    return Status::error(Code::invalid_argument, "there is no position {} in a context of {}", position,
                         shape_.context);
  const uint64_t needed = state_row_bytes(part_.plan->states[state.id], shape_.kv_type);
  if (bytes != needed)
    return Status::error(Code::invalid_argument, "a position takes {} bytes, {} were given", needed, bytes);
  return {};
}

Status ReferenceExecutor::export_row(State state, uint32_t position, std::span<uint8_t> to) {
  MOTE_RETURN_IF_ERROR(check_row(state, position, to.size()));
  const size_t columns = state_columns(state);
  const float* row = state_row(state, position);
  const KvType type = kept_type(state);
  for (size_t i = 0; i < columns; ++i) {
    if (type == KvType::f16) {
      store_le(&to[i * 2], f32_to_f16(row[i]));   // exact: `append` rounded it already
    } else {
      store_le(&to[i * 4], row[i]);
    }
  }
  return {};
}

Status ReferenceExecutor::import_row(State state, uint32_t position, std::span<const uint8_t> from) {
  MOTE_RETURN_IF_ERROR(check_row(state, position, from.size()));
  const size_t columns = state_columns(state);
  float* row = state_row(state, position);
  const KvType type = kept_type(state);
  for (size_t i = 0; i < columns; ++i)
    row[i] =
        kept(type == KvType::f16 ? f16_to_f32(load_le<uint16_t>(&from[i * 2])) : load_le<float>(&from[i * 4]), type);
  return {};
}

}   // namespace mote
