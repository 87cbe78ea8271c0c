// A plan: the forward pass of one architecture as a flat list of steps, in an order in which every Value is made
// before it is read. Owned by the model, shared by its sessions, never changed after it was built.
#pragma once
#include <cstdint>
#include <span>

#include "core/ops/step.h"

namespace mote {

struct ValueInfo {
  Dimension rows;
  Extent extent;
  uint32_t columns;
  uint32_t first_step, last_step;   // made by, last read by (UINT32_MAX: kept to the end, a result or a tap)
};

// Keys and values of one layer: position p holds keys [n_kv_heads, key_dim] and values [n_kv_heads, value_dim]. Or the
// vector of a recurrent one: one head of value_dim values without keys, of which only the last position's counts.
struct StateInfo {
  uint32_t layer;
  uint32_t n_kv_heads, key_dim, value_dim;
  uint32_t window;   // 0: a query sees every earlier position
  // `encode`: an encoder's input, written anew by each batch of that phase, at most SessionShape::max_batch positions.
  // `decode`: the sequence, at most SessionShape::context.
  Phase phase = Phase::decode;
  // The steps that use it lie in [first_step, last_step]; PlanBuilder narrows this to the first and the last of them.
  uint32_t first_step = 0, last_step = UINT32_MAX;

  bool recurrent() const { return key_dim == 0; }
};

struct Plan {
  std::span<const Step> steps;
  std::span<const ValueInfo> values;
  std::span<const StateInfo> states;
  uint32_t n_vocab = 0;   // rows of what the tokens are embedded by
  // What is there after a batch; those that a plan does not have do not exist.
  Value logits;   // [outputs, n_vocab], of the phase decode
  Value hidden;   // [tokens, d_model], of the phase encode: the encoder's last hidden states, there until it runs again
  Value pooled;   // [1, d_model], of the phase encode

  bool encodes() const { return !steps.empty() && steps[0].phase == Phase::encode; }
  bool decodes() const { return logits.exists(); }
};

// A run of steps that one backend executes as a whole.
struct PlanPart {
  const Plan* plan = nullptr;
  uint32_t first = 0, count = 0;
  std::span<const Step> steps() const { return plan->steps.subspan(first, count); }
  // Whether it has steps of this phase: those of `encode` come first.
  bool runs_in(Phase phase) const {
    return count != 0 && (phase == Phase::encode ? steps().front() : steps().back()).phase == phase;
  }
  // Whether the part keeps this state: the first step that uses it is here.
  bool owns(State state) const {
    return state.id < plan->states.size() && plan->states[state.id].first_step - first < count;
  }
};

}   // namespace mote
