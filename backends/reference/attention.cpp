// append and attention: what a sequence carries, and how a query reads it.
#include <algorithm>
#include <limits>

#include "backends/reference/executor.h"
#include "core/base/half.h"
#include "core/base/math.h"

namespace mote {

// The value as the session's KV type keeps it: finite. A NaN is 0 here, and the run fails.
float kept(float value, KvType type) {
  if (value != value) return 0;
  if (type == KvType::f16) return f16_to_f32(f32_to_f16(std::clamp(value, -65504.0F, 65504.0F)));
  return std::clamp(value, std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max());
}

Status ReferenceExecutor::append(const Step& step, const Batch& batch) {
  const size_t key_columns = step.inputs[0].columns, value_columns = step.inputs[1].columns;
  for (size_t row = 0; row < batch.tokens.size(); ++row) {
    const float* keys = values_.data(step.inputs[0]) + row * key_columns;
    const float* values = values_.data(step.inputs[1]) + row * value_columns;
    float* to = state_row(step.state, batch.first_position + static_cast<uint32_t>(row));
    for (size_t i = 0; i < key_columns; ++i) to[i] = kept(keys[i], shape_.kv_type);
    for (size_t i = 0; i < value_columns; ++i) to[key_columns + i] = kept(values[i], shape_.kv_type);
    const auto is_nan = [](float value) { return value != value; };
    if (std::any_of(keys, keys + key_columns, is_nan) || std::any_of(values, values + value_columns, is_nan))
      first_nan_.note(batch.first_position + static_cast<uint32_t>(row), step);
  }
  return {};
}

// The pairs of a query row and a head are independent; the lanes share them.
Status ReferenceExecutor::attention(const Step& step, const Batch& batch) {
  const StateInfo& state = part_.plan->states[step.state.id];
  const size_t n_kv_heads = state.n_kv_heads, value_dim = state.value_dim;
  const size_t n_heads = step.attributes.attention.n_heads, items = rows_of(step.output, batch) * n_heads;
  float* y = values_.data(step.output);
  parallel_.region([&](uint32_t lane) {
    double* sums = &sums_[size_t{lane} * max_value_dim_];
    for (size_t item = lane; item < items && !cancel_.requested(); item += parallel_.lanes) {
      const Seen seen = weigh(step, batch, item, lane);
      const size_t value_at = n_kv_heads * state.key_dim + item % n_heads / (n_heads / n_kv_heads) * value_dim;
      std::fill_n(sums, value_dim, 0.0);
      for (uint32_t p = seen.first; p < seen.end; ++p) {
        const float* value = state_row(step.state, p) + value_at;
        for (size_t i = 0; i < value_dim; ++i) sums[i] += seen.weights[p] * value[i];
      }
      for (size_t i = 0; i < value_dim; ++i) y[item * value_dim + i] = static_cast<float>(sums[i] / seen.total);
    }
  });
  return not_cancelled(step);
}

Status ReferenceExecutor::attention_weights(const Step& step, const Batch& batch) {
  const uint32_t positions = positions_of(step.output, batch);
  const size_t items = elements_of(step.output, batch);
  float* y = values_.data(step.output);
  parallel_.region([&](uint32_t lane) {
    for (size_t item = lane; item < items && !cancel_.requested(); item += parallel_.lanes) {
      const Seen seen = weigh(step, batch, item, lane);
      for (uint32_t p = 0; p < positions; ++p) {
        const bool is_seen = p >= seen.first && p < seen.end;
        y[item * positions + p] = is_seen ? static_cast<float>(seen.weights[p] / seen.total) : 0;
      }
    }
  });
  return not_cancelled(step);
}

// softmax(softcap(scale * q keys[p]) + bias(p - position)) over the visible positions p, times `total`
ReferenceExecutor::Seen ReferenceExecutor::weigh(const Step& step, const Batch& batch, size_t item, uint32_t lane) {
  const StateInfo& state = part_.plan->states[step.state.id];
  const float* q = values_.data(step.inputs[0]) + item * state.key_dim;
  const AttentionAttributes& attributes = step.attributes.attention;
  const size_t head = item % attributes.n_heads;
  const uint32_t position = batch.first_position + static_cast<uint32_t>(item / attributes.n_heads);
  const bool sees_all = attributes.sees == Sees::all;
  const uint32_t first = state.window != 0 && position >= state.window ? position + 1 - state.window : 0;
  const uint32_t end = sees_all ? batch.n_encoded : position + 1;
  const int64_t farthest = attributes.max_distance;
  const float* biases =
      step.vector.exists() ? step.vector.data + head * (2 * attributes.max_distance + size_t{1}) : nullptr;
  const size_t kv_head = head / (attributes.n_heads / state.n_kv_heads);
  const size_t key_at = kv_head * state.key_dim;
  double* scores = &scores_[size_t{lane} * max_scores_];

  double largest = -std::numeric_limits<double>::infinity();
  for (uint32_t p = first; p < end; ++p) {
    const float* key = state_row(step.state, p) + key_at;
    double dot = 0;
    for (uint32_t i = 0; i < state.key_dim; ++i) dot += double{q[i]} * key[i];
    double score = dot * attributes.scale;
    if (attributes.softcap != 0) score = attributes.softcap * tanh_f64(score / attributes.softcap);
    if (biases != nullptr)
      score += biases[static_cast<size_t>(std::clamp(int64_t{p} - position, -farthest, farthest) + farthest)];
    scores[p] = score;
    largest = std::max(largest, score);
  }

  double total = 0;
  for (uint32_t p = first; p < end; ++p) {
    scores[p] = exp_f64(scores[p] - largest);
    total += scores[p];
  }
  return {scores, total, first, end};
}

}   // namespace mote
