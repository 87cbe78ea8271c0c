// The reference backend's work on one session: one member function per op, each the op's definition.
//
// Inside an op everything is double, formed from the f32 inputs and added in rising index order; what leaves the op
// is rounded to f32 once. An output may lie where the first input lies (ops.inc), so an op reads of a row what it
// needs before it writes there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/ops/backend.h"
#include "core/ops/first_nan.h"

namespace mote {

// A value as the session's KV type keeps it: finite, NaN is 0.
float kept(float value, KvType type);

class ReferenceExecutor final : public Executor {
 public:
  // Takes everything a session needs from `arena`. While measuring only the bytes count.
  Status layout(const PlanPart& part, const SessionShape& shape, const ValueMemory& values, Parallel parallel,
                Arena& arena, Footprint* footprint);

  Status run(const Batch& batch, CancelFlag cancel) override;
  Status begin(uint32_t first_position, uint32_t rows) override;
  void commit() override {}
  void discard() override {}
  Status truncate(uint32_t positions) override;
  Status export_row(State state, uint32_t position, std::span<uint8_t> to) override;
  Status import_row(State state, uint32_t position, std::span<const uint8_t> from) override;

 private:
  // x rows that `linear` takes at a time, so that a weight row is dequantised once for all of them.
  static constexpr uint32_t kGroup = 16;

  Status take_states(Arena& arena);
  Status take_scratch(Arena& arena);
  Status check(const Batch& batch) const;
  Status not_cancelled(const Step& step) const;
  Status check_row(State state, uint32_t position, size_t bytes) const;
  Status run_step(const Step& step, const Batch& batch);

  // One per op of ops.inc, in the file of its family; the linker names one that is missing.
#define MOTE_OP(name, inputs, state, in_place) Status name(const Step& step, const Batch& batch);
#include "core/ops/ops.inc"
#undef MOTE_OP

  void linear_group(const Step& step, const float* x, float* y, uint32_t rows);
  // What a query row and a head (item: row * n_heads + head) see: weights [first, end), of the sum `total`.
  struct Seen {
    const double* weights;
    double total;
    uint32_t first, end;
  };
  Seen weigh(const Step& step, const Batch& batch, size_t item, uint32_t lane);

  static size_t elements_of(Value value, const Batch& batch) { return size_t{rows_of(value, batch)} * value.columns; }

  // What the state holds at a position: keys [n_kv_heads, key_dim], then values [n_kv_heads, value_dim], f32.
  size_t state_columns(State state) const {
    const StateInfo& info = part_.plan->states[state.id];
    return size_t{info.n_kv_heads} * (size_t{info.key_dim} + info.value_dim);
  }
  // A recurrent vector is f32 whatever the session's KV type.
  KvType kept_type(State state) const {
    return part_.plan->states[state.id].recurrent() ? KvType::f32 : shape_.kv_type;
  }
  float* state_row(State state, uint32_t position) const { return states_[state.id] + position * state_columns(state); }

  PlanPart part_;
  SessionShape shape_;
  ValueMemory values_;
  Parallel all_lanes_;             // of the engine
  Parallel parallel_;              // those that the batch may take
  std::span<float*> states_;       // by State::id: [capacity, state_columns]; null: not in this part
  std::span<double> transposed_;   // linear: [columns, kGroup]
  std::span<float> weights_;       // [lanes, max_columns_]: a dequantised row of a matrix, or sines and cosines
  std::span<double> scores_;       // attention: [lanes, max_scores_]
  std::span<double> sums_;         // attention: [lanes, max_value_dim_]
  uint32_t max_columns_ = 0, max_value_dim_ = 0, max_scores_ = 0;
  FirstNan first_nan_;   // of the run that is under way
  CancelFlag cancel_;    // likewise; attention looks at it between its items
};

}   // namespace mote
