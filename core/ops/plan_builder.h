// Writes a plan down, one call per op, so that an architecture reads like its paper. Shapes are checked as the steps
// are added; the first contradiction is kept and everything after it is ignored, so that a `build` function needs no
// checks of its own.
//
// Without storage the builder only counts: the same `build` function runs once to size the plan and once to write it.
#pragma once
#include <span>

#include "core/base/result.h"
#include "core/ops/plan.h"

namespace mote {

struct RopeSettings {
  RopeAnglesAttributes angles;
  RopePairing pairing;
  uint32_t number;   // tells the settings of one model apart, also while frequencies have no data; below kMaxNumber
  static constexpr uint32_t kMaxNumber = 4;
};

// What is kept of a batch for those who look at it: the weights of some layers' attention.
struct Taps {
  uint32_t attendings = 0;                            // bits 1 << Attending
  uint32_t first_layer = 0, end_layer = UINT32_MAX;   // [first, end)
};

// What the layers of a decoder read of an encoder's input: a state for each.
class CrossStates {
 public:
  CrossStates() = default;
  explicit CrossStates(State first) : first_(first) {}
  State operator[](uint32_t layer) const {   // below the number that was asked for
    State state = first_;
    state.id = static_cast<uint16_t>(state.id + layer);
    return state;
  }

 private:
  State first_;
};

class PlanBuilder {
 public:
  struct Counts {
    uint32_t steps = 0, values = 0, states = 0;
  };

  PlanBuilder() = default;
  PlanBuilder(std::span<Step> steps, std::span<ValueInfo> values, std::span<StateInfo> states)
      : steps_(steps), values_(values), states_(states), storing_(true) {}

  // Before all else: each attention that is tapped gets an attention_weights in front of it, whose Value is kept.
  void tap(const Taps& taps) { taps_ = taps; }
  uint32_t tapped() const { return tapped_; }   // how many there are

  // Steps, states and Values added from here on belong to this phase; `encode` before `decode`, which is where a
  // builder begins. No Value goes from one to the other, only states do.
  void enter_phase(Phase phase);
  // Steps added from here on belong to this layer (for messages and profiles).
  void enter_layer(uint32_t layer) { layer_ = layer; }
  void leave_layers() { layer_ = Step::kNoLayer; }

  Value embed(const Matrix& table, const Vector& bias = {});   // [tokens, table.columns]
  Value position_embed(Value x, const Matrix& table);
  Value sinusoidal_positions(Value x, const double* frequency);   // [columns of x / 2]
  Value rms_norm(Value x, const Vector& weight, float epsilon);   // of each group of weight.count values
  Value layer_norm(Value x, const Vector& weight, const Vector& bias, float epsilon);
  Value linear(Value x, const Matrix& weight, const Vector& bias = {});   // [rows of x, weight.rows]
  Value rope(Value x, uint32_t head_dim, const RopeSettings& rope);
  State kv_state(uint32_t n_kv_heads, uint32_t key_dim, uint32_t value_dim, uint32_t window = 0);
  // In the phase `encode`: one kv_state for each layer of the decoder, filled by `append` and read in the other phase.
  CrossStates cross_states(uint32_t n_layers, uint32_t n_kv_heads, uint32_t key_dim, uint32_t value_dim);
  State append(State state, Value keys, Value values);
  // `bias` by distance: [n_heads, 2 * the greatest distance + 1].
  Value causal_attention(Value q, State past, const AttentionAttributes& attributes, const Vector& bias = {});
  // Sees all of an encoder's input: within the encoder, and across from the decoder.
  Value full_attention(Value q, State all, const AttentionAttributes& attributes, const Vector& bias = {});
  State recurrent_state(uint32_t width);
  Value rnn(Value x, State state, const Matrix& recurrence);
  Value activate(Value x, Activation function);
  Value gate(Value gate, Value up, Activation function);
  Value add(Value a, Value b);
  Value scale(Value x, float factor);
  Value softcap(Value x, float cap);
  Value take_wanted_rows(Value x);        // [outputs, columns of x]
  Value pool(Value x, Pooling pooling);   // [1, columns of x]
  // Name the plan's results: [outputs, n_vocab]; [tokens, d_model] and, where it `exists`, one row of an encoder.
  Status logits(Value logits);
  Status encoded(Value hidden, Value pooled = {});

  const Counts& counts() const { return counts_; }
  // The plan, or the first contradiction. Only with storage.
  Result<Plan> finish() const;
  const Status& status() const { return status_; }

 private:
  Step start(Op op, Value x) const;
  State add_state(const StateInfo& info);
  Value attention(Value q, State state, const AttentionAttributes& attributes, const Vector& bias);
  void keep(Value result);
  void weights_of(const Step& attention);
  Value finish_step(Step& step, Dimension rows, uint32_t columns, Extent extent = Extent::single);
  void add_step(const Step& step);
  bool same_shape(Op op, Value a, Value b);
  bool rows_of_batch(Op op, Value x);
  bool expect(bool holds, std::string_view pattern, const FormatArgument& a, const FormatArgument& b,
              const FormatArgument& c);

  std::span<Step> steps_;
  std::span<ValueInfo> values_;
  std::span<StateInfo> states_;
  bool storing_ = false;
  Taps taps_;
  uint32_t tapped_ = 0;
  Counts counts_;
  uint32_t layer_ = Step::kNoLayer;
  Phase phase_ = Phase::decode;
  uint32_t first_value_ = 0;                 // of the phase
  Value angles_[RopeSettings::kMaxNumber];   // made by the first rope of each setting, shared by the ones after it
  Value logits_, hidden_, pooled_;
  uint32_t n_vocab_ = 0;
  Status status_;
};

}   // namespace mote
