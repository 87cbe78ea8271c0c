#include "core/ops/step_cost.h"

namespace mote {
namespace {

uint64_t bytes_of(Value value, const Batch& batch) {
  if (!value.exists()) return 0;
  return uint64_t{rows_of(value, batch)} * value.columns * positions_of(value, batch) * sizeof(float);
}

// Positions that the row at `position` sees, and the first of them.
struct Seen {
  uint64_t first, count;
};
Seen seen_from(uint64_t position, const Step& step, const StateInfo& state, const Batch& batch) {
  if (step.attributes.attention.sees == Sees::all) return {0, batch.n_encoded};
  const uint64_t window = state.window;
  const uint64_t first = window != 0 && position + 1 > window ? position + 1 - window : 0;
  return {first, position + 1 - first};
}

void add_attention(const Step& step, const StateInfo& state, const Batch& batch, uint64_t position_bytes,
                   StepCost* cost) {
  const bool weighs = step.op == Op::attention_weights;   // reads keys alone
  const uint64_t columns = state.key_dim + (weighs ? 0 : state.value_dim);
  uint64_t first = UINT64_MAX, end = 0;
  for (size_t row = 0; row < batch.tokens.size(); ++row) {
    const Seen seen = seen_from(batch.first_position + uint64_t{row}, step, state, batch);
    first = seen.first < first ? seen.first : first;
    end = seen.first + seen.count > end ? seen.first + seen.count : end;
    cost->f32_operations += 2 * step.attributes.attention.n_heads * columns * seen.count;
  }
  if (end > first)
    cost->state_bytes = (end - first) * (position_bytes * columns / (uint64_t{state.key_dim} + state.value_dim));
}

void add_matrix(const Step& step, uint64_t rows, StepCost* cost) {
  const Matrix& matrix = step.matrix;
  const bool takes_rows = step.op == Op::embed || step.op == Op::position_embed;
  cost->weight_bytes += row_bytes(matrix.format, matrix.columns) * (takes_rows ? rows : matrix.rows);
  if (takes_rows) return;
  const uint64_t operations = 2 * uint64_t{matrix.rows} * matrix.columns * rows;
  (format_info(matrix.format).block_values > 1 ? cost->int8_operations : cost->f32_operations) += operations;
}

}   // namespace

StepCost cost_of(const Step& step, const Plan& plan, const Batch& batch, KvType kv_type) {
  StepCost cost;
  const uint64_t rows = step.output.exists() ? rows_of(step.output, batch) : batch.tokens.size();
  if (rows == 0) return cost;
  for (const Value& input : step.inputs) cost.value_bytes += bytes_of(input, batch);
  cost.value_bytes += bytes_of(step.output, batch);
  cost.weight_bytes = (uint64_t{step.vector.count} + step.bias.count) * sizeof(float);
  if (step.matrix.rows != 0) add_matrix(step, rows, &cost);
  if (!step.state.exists()) return cost;
  const StateInfo& state = plan.states[step.state.id];
  const uint64_t position_bytes = state_row_bytes(state, kv_type);
  if (op_info(step.op).state == StateUse::reads)
    add_attention(step, state, batch, position_bytes, &cost);
  else
    cost.state_bytes = position_bytes * (state.recurrent() ? 1 : rows);
  return cost;
}

}   // namespace mote
