#include "core/ops/plan_builder.h"

namespace mote {

bool PlanBuilder::expect(bool holds, std::string_view pattern, const FormatArgument& a, const FormatArgument& b,
                         const FormatArgument& c) {
  if (!status_.ok()) return false;
  if (!holds) status_ = Status::error(Code::bad_model, pattern, a, b, c);
  return holds;
}

bool PlanBuilder::same_shape(Op op, Value a, Value b) {
  return expect(a.columns == b.columns && a.rows == b.rows, "{} is given rows of {} and of {} values", op_info(op).name,
                a.columns, b.columns);
}

Step PlanBuilder::start(Op op, Value x) const {
  Step step;
  step.op = op;
  step.phase = phase_;
  step.layer = static_cast<uint16_t>(layer_ < Step::kNoLayer ? layer_ : Step::kNoLayer);
  step.inputs[0] = x;
  return step;
}

void PlanBuilder::enter_phase(Phase phase) {
  expect(phase == Phase::decode || counts_.steps == 0 || phase_ == phase, "the plan encodes after it decodes", 0, 0, 0);
  if (phase != phase_) first_value_ = counts_.values;
  phase_ = phase;
  for (Value& angles : angles_) angles = {};
}

void PlanBuilder::add_step(const Step& step) {
  for (const Value& input : step.inputs)
    expect(!input.exists() || input.id >= first_value_, "{} is given a Value of the other phase", op_info(step.op).name,
           0, 0);
  if (!status_.ok()) return;
  if (storing_) {
    if (counts_.steps >= steps_.size()) {
      status_ =
          Status::error(Code::out_of_memory, "the plan has more than the {} steps it was sized for", steps_.size());
      return;
    }
    for (const Value& input : step.inputs)
      if (input.exists() && values_[input.id].last_step != UINT32_MAX)   // else a result, kept to the end
        values_[input.id].last_step = counts_.steps;
    if (step.state.exists()) {
      StateInfo& used = states_[step.state.id];
      if (used.last_step == UINT32_MAX) used.first_step = counts_.steps;   // its first use
      used.last_step = counts_.steps;
    }
    steps_[counts_.steps] = step;
  }
  ++counts_.steps;
}

Value PlanBuilder::finish_step(Step& step, Dimension rows, uint32_t columns, Extent extent) {
  if (!expect(counts_.values < Value::kNone, "the plan has more than {} Values", Value::kNone, 0, 0)) return {};
  Value out{static_cast<uint16_t>(counts_.values), rows, extent, columns};
  if (storing_) {
    if (counts_.values >= values_.size()) {
      status_ =
          Status::error(Code::out_of_memory, "the plan has more than the {} Values it was sized for", values_.size());
      return {};
    }
    values_[counts_.values] = {rows, extent, columns, counts_.steps, counts_.steps};
  }
  ++counts_.values;
  step.output = out;
  add_step(step);
  return out;
}

Value PlanBuilder::embed(const Matrix& table, const Vector& bias) {
  expect(!bias.exists() || bias.count == table.columns, "embed adds {} values to rows of {}", bias.count, table.columns,
         0);
  expect(n_vocab_ == 0 || n_vocab_ == table.rows, "the plan embeds tokens of {} and of {}", n_vocab_, table.rows, 0);
  n_vocab_ = table.rows;
  Step step = start(Op::embed, {});
  step.matrix = table;
  step.bias = bias;
  return finish_step(step, Dimension::tokens, table.columns);
}

// Of ops that go by positions: rows that were picked have lost theirs.
bool PlanBuilder::rows_of_batch(Op op, Value x) {
  return expect(x.rows == Dimension::tokens,
                "{} needs a row for each position of the batch; its input has rows that were picked", op_info(op).name,
                0, 0);
}

Value PlanBuilder::position_embed(Value x, const Matrix& table) {
  rows_of_batch(Op::position_embed, x);
  expect(x.columns == table.columns, "{} has rows of {} values, the hidden state has {}", table.name, table.columns,
         x.columns);
  Step step = start(Op::position_embed, x);
  step.matrix = table;
  return finish_step(step, x.rows, x.columns);
}

Value PlanBuilder::sinusoidal_positions(Value x, const double* frequency) {
  rows_of_batch(Op::position_embed, x);
  expect(x.columns % 2 == 0, "sines and cosines come in pairs, the hidden state has {} values", x.columns, 0, 0);
  Step step = start(Op::position_embed, x);
  step.attributes.position_embed = {frequency};
  return finish_step(step, x.rows, x.columns);
}

Value PlanBuilder::rms_norm(Value x, const Vector& weight, float epsilon) {
  expect(weight.exists() && x.columns % weight.count == 0, "rms_norm has {} weights for rows of {} values",
         weight.count, x.columns, 0);
  Step step = start(Op::rms_norm, x);
  step.vector = weight;
  step.attributes.norm = {epsilon};
  return finish_step(step, x.rows, x.columns);
}

Value PlanBuilder::layer_norm(Value x, const Vector& weight, const Vector& bias, float epsilon) {
  expect(weight.count == x.columns && (!bias.exists() || bias.count == x.columns),
         "layer_norm has {} weights and {} biases for rows of {} values", weight.count, bias.count, x.columns);
  Step step = start(Op::layer_norm, x);
  step.vector = weight;
  step.bias = bias;
  step.attributes.norm = {epsilon};
  return finish_step(step, x.rows, x.columns);
}

Value PlanBuilder::linear(Value x, const Matrix& weight, const Vector& bias) {
  expect(weight.columns == x.columns, "tensor {} has rows of {} values, its input has {}", weight.name, weight.columns,
         x.columns);
  expect(!bias.exists() || bias.count == weight.rows, "the bias of tensor {} has {} values for {} rows", weight.name,
         bias.count, weight.rows);
  Step step = start(Op::linear, x);
  step.matrix = weight;
  step.bias = bias;
  return finish_step(step, x.rows, weight.rows);
}

Value PlanBuilder::rope(Value x, uint32_t head_dim, const RopeSettings& rope) {
  const uint32_t n_rotated = rope.angles.n_rotated;
  rows_of_batch(Op::rope, x);
  if (!expect(head_dim != 0 && x.columns % head_dim == 0 && n_rotated % 2 == 0 && n_rotated <= head_dim,
              "rope turns {} dimensions of heads of {} in rows of {} values", n_rotated, head_dim, x.columns))
    return {};
  if (!expect(rope.number < RopeSettings::kMaxNumber, "the plan has more than {} settings of rope",
              RopeSettings::kMaxNumber, 0, 0))
    return {};
  Value& shared = angles_[rope.number];
  if (!shared.exists()) {
    Step angles = start(Op::rope_angles, {});
    angles.attributes.rope_angles = rope.angles;
    shared = finish_step(angles, Dimension::tokens, n_rotated);
  }
  Step step = start(Op::rope, x);
  step.inputs[1] = shared;
  step.attributes.rope = {x.columns / head_dim, head_dim, n_rotated, rope.pairing};
  return finish_step(step, x.rows, x.columns);
}

State PlanBuilder::add_state(const StateInfo& info) {
  if (!expect(counts_.states < State::kNone, "the plan has more than {} states", State::kNone, 0, 0)) return {};
  if (storing_) {
    if (counts_.states >= states_.size()) {
      status_ =
          Status::error(Code::out_of_memory, "the plan has more than the {} states it was sized for", states_.size());
      return {};
    }
    states_[counts_.states] = info;
  }
  return {static_cast<uint16_t>(counts_.states++),
          phase_,
          false,
          info.n_kv_heads,
          info.key_dim,
          info.value_dim,
          info.window};
}

State PlanBuilder::kv_state(uint32_t n_kv_heads, uint32_t key_dim, uint32_t value_dim, uint32_t window) {
  return add_state({layer_, n_kv_heads, key_dim, value_dim, window, phase_});
}

CrossStates PlanBuilder::cross_states(uint32_t n_layers, uint32_t n_kv_heads, uint32_t key_dim, uint32_t value_dim) {
  expect(phase_ == Phase::encode, "a decoder reads what an encoder was given, not itself", 0, 0, 0);
  State first;
  for (uint32_t layer = 0; layer < n_layers && status_.ok(); ++layer) {
    State state = add_state({layer, n_kv_heads, key_dim, value_dim, 0, phase_});
    if (layer == 0) first = state;
  }
  first.is_cross = true;
  return CrossStates(first);
}

State PlanBuilder::recurrent_state(uint32_t width) { return add_state({layer_, 1, 0, width, 0, phase_}); }

State PlanBuilder::append(State state, Value keys, Value values) {
  rows_of_batch(Op::append, keys);
  rows_of_batch(Op::append, values);
  expect(state.exists() && state.phase == phase_, "append is given a state of the other phase, or none", 0, 0, 0);
  expect(uint64_t{state.n_kv_heads} * state.key_dim == keys.columns &&
             uint64_t{state.n_kv_heads} * state.value_dim == values.columns,
         "{} KV heads do not fit keys of {} and values of {} values", state.n_kv_heads, keys.columns, values.columns);
  Step step = start(Op::append, keys);
  step.inputs[1] = values;
  step.state = state;
  add_step(step);
  return state;
}

Value PlanBuilder::attention(Value q, State state, const AttentionAttributes& attributes, const Vector& bias) {
  const uint32_t n_heads = attributes.n_heads;
  rows_of_batch(Op::attention, q);
  if (!expect(state.exists() && n_heads != 0 && state.n_kv_heads != 0 && n_heads % state.n_kv_heads == 0 &&
                  uint64_t{n_heads} * state.key_dim == q.columns,
              "{} heads on {} KV heads do not fit queries of {} values", n_heads, state.n_kv_heads, q.columns))
    return {};
  if (!expect(uint64_t{n_heads} * state.value_dim <= UINT32_MAX, "{} heads of {} values are more than a row holds",
              n_heads, state.value_dim, 0))
    return {};
  const uint32_t distances = bias.count / n_heads;
  expect(!bias.exists() || (bias.count % n_heads == 0 && distances % 2 == 1),
         "attention of {} heads is given {} biases, which are not the same odd number for each", n_heads, bias.count,
         0);
  Step step = start(Op::attention, q);
  step.state = state;
  step.vector = bias;
  step.attributes.attention = attributes;
  step.attributes.attention.max_distance = distances / 2;
  weights_of(step);
  return finish_step(step, q.rows, n_heads * state.value_dim);
}

// In front of it: what follows an attention may count on standing right behind it.
void PlanBuilder::weights_of(const Step& attention) {
  const bool wanted = (taps_.attendings >> static_cast<uint32_t>(attending_of(attention)) & 1) != 0 &&
                      layer_ >= taps_.first_layer && layer_ < taps_.end_layer;
  if (!wanted) return;
  Step step = attention;
  step.op = Op::attention_weights;
  keep(finish_step(step, attention.inputs[0].rows, attention.attributes.attention.n_heads,
                   attention.state.phase == Phase::encode ? Extent::input : Extent::past));
  ++tapped_;
}

Value PlanBuilder::causal_attention(Value q, State past, const AttentionAttributes& attributes, const Vector& bias) {
  expect(past.phase == phase_, "causal attention is given a state of the other phase", 0, 0, 0);
  return attention(q, past, attributes, bias);
}

Value PlanBuilder::full_attention(Value q, State all, const AttentionAttributes& attributes, const Vector& bias) {
  expect(all.phase == Phase::encode && all.window == 0,
         "attention to all is given a state with a window of {} or one of the decoder", all.window, 0, 0);
  expect(all.is_cross == (phase_ == Phase::decode),
         "a decoder reads an encoder's input from cross_states, and no one else", 0, 0, 0);
  AttentionAttributes full = attributes;
  full.sees = Sees::all;
  return attention(q, all, full, bias);
}

Value PlanBuilder::rnn(Value x, State state, const Matrix& recurrence) {
  rows_of_batch(Op::rnn, x);
  expect(state.exists() && state.phase == phase_ && state.key_dim == 0 && state.value_dim == x.columns,
         "rnn is given rows of {} values and another state than a vector of as many", x.columns, 0, 0);
  expect(recurrence.rows == x.columns && recurrence.columns == x.columns,
         "tensor {} is [{}, {}], a recurrence turns vectors into as long ones, those of its input", recurrence.name,
         recurrence.columns, recurrence.rows);
  Step step = start(Op::rnn, x);
  step.state = state;
  step.matrix = recurrence;
  return finish_step(step, x.rows, x.columns);
}

Value PlanBuilder::activate(Value x, Activation function) {
  Step step = start(Op::activate, x);
  step.attributes.activate = {function};
  return finish_step(step, x.rows, x.columns);
}

Value PlanBuilder::gate(Value gate, Value up, Activation function) {
  same_shape(Op::gate, gate, up);
  Step step = start(Op::gate, gate);
  step.inputs[1] = up;
  step.attributes.activate = {function};
  return finish_step(step, gate.rows, gate.columns);
}

Value PlanBuilder::add(Value a, Value b) {
  same_shape(Op::add, a, b);
  Step step = start(Op::add, a);
  step.inputs[1] = b;
  return finish_step(step, a.rows, a.columns);
}

Value PlanBuilder::scale(Value x, float factor) {
  Step step = start(Op::scale, x);
  step.attributes.scale = {factor};
  return finish_step(step, x.rows, x.columns);
}

Value PlanBuilder::softcap(Value x, float cap) {
  Step step = start(Op::softcap, x);
  step.attributes.scale = {cap};
  return finish_step(step, x.rows, x.columns);
}

Value PlanBuilder::take_wanted_rows(Value x) {
  expect(x.rows == Dimension::tokens, "take_rows is given rows that were taken already", 0, 0, 0);
  Step step = start(Op::take_rows, x);
  return finish_step(step, Dimension::outputs, x.columns);
}

Value PlanBuilder::pool(Value x, Pooling pooling) {
  expect(x.rows == Dimension::tokens && phase_ == Phase::encode, "pool is given rows that are no encoder's", 0, 0, 0);
  Step step = start(Op::pool, x);
  step.attributes.pool = {pooling};
  return finish_step(step, Dimension::one, x.columns);
}

// Kept after the last step.
void PlanBuilder::keep(Value result) {
  if (storing_ && result.exists()) values_[result.id].last_step = UINT32_MAX;
}

Status PlanBuilder::logits(Value logits) {
  expect(logits.rows == Dimension::outputs && phase_ == Phase::decode,
         "the plan's result has a row for every token, not for the wanted ones", 0, 0, 0);
  if (!status_.ok()) return status_;
  logits_ = logits;
  keep(logits);
  return {};
}

Status PlanBuilder::encoded(Value hidden, Value pooled) {
  expect(hidden.exists() && hidden.rows == Dimension::tokens && phase_ == Phase::encode &&
             (!pooled.exists() || pooled.rows == Dimension::one),
         "an encoder's result is a row for every token, and one for all", 0, 0, 0);
  if (!status_.ok()) return status_;
  hidden_ = hidden;
  pooled_ = pooled;
  keep(hidden);
  keep(pooled);
  return {};
}

Result<Plan> PlanBuilder::finish() const {
  if (!status_.ok()) return status_;
  Plan plan;
  plan.steps = steps_.first(counts_.steps);
  plan.values = values_.first(counts_.values);
  plan.states = states_.first(counts_.states);
  plan.n_vocab = n_vocab_;
  plan.logits = logits_;
  plan.hidden = hidden_;
  plan.pooled = pooled_;
  return plan;
}

}   // namespace mote
