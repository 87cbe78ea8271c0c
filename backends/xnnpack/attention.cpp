// append and attention. A query row of one KV head is attended to by three operators: its group's queries times the
// visible keys (batch matrix multiply), softmax over each row of the scores, the weights times the visible values
// (batch matrix multiply). What a row may not see is not there for it, so nothing is masked, and a row's bits do not
// depend on which rows share its batch.
#include <algorithm>
#include <atomic>
#include <limits>

#include "backends/xnnpack/executor.h"

namespace mote {
namespace {

// Rows that one lane attends to in one go; f16 states are widened once for them.
constexpr uint32_t kChunk = 16;

struct Work {
  const XnnKvState& state;
  const StateInfo& info;
  AttentionAttributes attributes;
  uint32_t first_position, rows, group;
  const float* q;
  float* y;

  uint32_t first_visible(uint32_t row) const {
    const uint32_t position = first_position + row;
    return info.window != 0 && position >= info.window ? position + 1 - info.window : 0;
  }
};

Status widen(const AttentionLane& lane, const uint8_t* from, size_t count, float* to) {
  MOTE_RETURN_IF_XNN_FAILS(xnn_reshape_unary_elementwise_nc, lane.widen, 1, count, count, count, nullptr);
  MOTE_RETURN_IF_XNN_FAILS(xnn_setup_unary_elementwise_nc, lane.widen, from, to);
  MOTE_RETURN_IF_XNN_FAILS(xnn_run_operator, lane.widen, nullptr);
  return {};
}

// out [m, n] = a [m, k] times b: [k, n], or [n, k] for an operator that transposes it.
Status multiply(const AttentionLane& lane, xnn_operator_t op, size_t m, size_t k, size_t n, const float* a,
                const float* b, float* out) {
  const size_t one = 1;
  size_t bytes = 0, alignment = 0;
  MOTE_RETURN_IF_XNN_FAILS(xnn_reshape_batch_matrix_multiply_nc_f32, op, 1, &one, &one, m, k, n, &bytes, &alignment,
                           nullptr);
  if (bytes > lane.workspace.size())
    return Status::error(Code::backend_failed, "XNNPACK wants {} bytes to multiply by [{}, {}], the session has {}",
                         bytes, k, n, lane.workspace.size());
  MOTE_RETURN_IF_XNN_FAILS(xnn_setup_batch_matrix_multiply_nc_f32, op, lane.workspace.data(), a, b, out);
  MOTE_RETURN_IF_XNN_FAILS(xnn_run_operator, op, nullptr);
  return {};
}

Status weigh(const AttentionLane& lane, const AttentionAttributes& attributes, size_t group, size_t keys) {
  float* scores = lane.scores_of_group.data();
  if (attributes.softcap != 0) run_softcap(attributes.softcap, scores, scores, group * keys);
  MOTE_RETURN_IF_XNN_FAILS(xnn_reshape_softmax_nc_f32, lane.softmax, keys, keys, keys, group, nullptr);
  MOTE_RETURN_IF_XNN_FAILS(xnn_setup_softmax_nc_f32, lane.softmax, scores, lane.weights.data());
  MOTE_RETURN_IF_XNN_FAILS(xnn_run_operator, lane.softmax, nullptr);
  return {};
}

// The library's multiplication may have made a NaN infinite (linear.cpp), which a cap would make an ordinary score.
// What is kept is finite, so a NaN among scores comes from a query with one, and is all of its row.
void restore_nan_scores(const Work& work, const AttentionLane& lane, const float* q, size_t visible) {
  for (size_t i = 0; i < work.group; ++i) {
    const float* of_head = q + i * work.info.key_dim;
    if (std::any_of(of_head, of_head + work.info.key_dim, [](float value) { return value != value; }))
      std::fill_n(lane.scores_of_group.data() + i * visible, visible, std::numeric_limits<float>::quiet_NaN());
  }
}

// One row of the batch, all query heads of one KV head. `keys` and `values` begin at the row's first visible position.
Status attend_row(const Work& work, const AttentionLane& lane, uint32_t kv_head, uint32_t row, const float* keys,
                  const float* values) {
  const size_t group = work.group, key_dim = work.info.key_dim, value_dim = work.info.value_dim;
  const size_t visible = work.first_position + row - work.first_visible(row) + 1;
  const size_t head = size_t{row} * work.attributes.n_heads + kv_head * group;
  MOTE_RETURN_IF_ERROR(run_scale(lane.multiply, work.q + head * key_dim, work.attributes.scale, lane.q.data(),
                                 group * key_dim, nullptr));
  MOTE_RETURN_IF_ERROR(
      multiply(lane, lane.scores, group, key_dim, visible, lane.q.data(), keys, lane.scores_of_group.data()));
  if (work.attributes.softcap != 0) restore_nan_scores(work, lane, work.q + head * key_dim, visible);
  MOTE_RETURN_IF_ERROR(weigh(lane, work.attributes, group, visible));
  return multiply(lane, lane.sums, group, visible, value_dim, lane.weights.data(), values, work.y + head * value_dim);
}

// Rows [first, end) of one KV head.
Status attend_rows(const Work& work, const AttentionLane& lane, uint32_t kv_head, uint32_t first, uint32_t end) {
  const uint32_t begin = work.first_visible(first);
  const size_t held = work.first_position + end - begin;   // positions that any of the rows sees
  const uint8_t *stored_keys = work.state.keys(kv_head, begin), *stored_values = work.state.values(kv_head, begin);
  const float *keys = lane.keys.data(), *values = lane.values.data();
  if (work.state.is_f32()) {
    keys = reinterpret_cast<const float*>(stored_keys);
    values = reinterpret_cast<const float*>(stored_values);
  } else {
    MOTE_RETURN_IF_ERROR(widen(lane, stored_keys, held * work.info.key_dim, lane.keys.data()));
    MOTE_RETURN_IF_ERROR(widen(lane, stored_values, held * work.info.value_dim, lane.values.data()));
  }
  for (uint32_t row = first; row < end; ++row) {
    const size_t before = work.first_visible(row) - begin;
    MOTE_RETURN_IF_ERROR(
        attend_row(work, lane, kv_head, row, keys + before * work.info.key_dim, values + before * work.info.value_dim));
  }
  return {};
}

}   // namespace

Status xnn_run_append(const StepContext& context) {
  const Step& step = context.step();
  XnnKvState& state = context.session.states[step.state.id];
  const float *keys = context.input(0), *values = context.input(1);
  for (size_t row = 0; row < context.batch.tokens.size(); ++row) {
    const uint32_t position = context.batch.first_position + static_cast<uint32_t>(row);
    if (!state.write_row(position, keys + row * step.inputs[0].columns, values + row * step.inputs[1].columns))
      context.first_nan.note(position, state.info().layer);
  }
  return {};
}

Status xnn_run_attention(const StepContext& context) {
  const Step& step = context.step();
  const XnnKvState& state = context.session.states[step.state.id];
  const StateInfo& info = state.info();
  const auto rows = static_cast<uint32_t>(context.batch.tokens.size());
  const Work work = {state,
                     info,
                     step.attributes.attention,
                     context.batch.first_position,
                     rows,
                     step.attributes.attention.n_heads / info.n_kv_heads,
                     context.input(0),
                     context.output()};
  const Parallel& parallel = context.session.pool.parallel;
  const std::span<AttentionLane> lanes = context.session.scratch.lanes.first(parallel.lanes);
  const uint64_t chunks = (uint64_t{rows} + kChunk - 1) / kChunk, items = chunks * info.n_kv_heads;
  std::atomic<uint64_t> next{0};
  parallel.region([&](uint32_t number) {
    AttentionLane& lane = lanes[number];
    lane.status = {};
    for (;;) {
      const uint64_t item = next.fetch_add(1, std::memory_order_relaxed);
      if (item >= items || !lane.status.ok()) return;
      // The last rows first: they see most.
      const auto chunk = static_cast<uint32_t>(chunks - 1 - item / info.n_kv_heads);
      lane.status = attend_rows(work, lane, static_cast<uint32_t>(item % info.n_kv_heads), chunk * kChunk,
                                std::min(rows, (chunk + 1) * kChunk));
    }
  });
  for (const AttentionLane& lane : lanes) MOTE_RETURN_IF_ERROR(lane.status);
  return {};
}

}   // namespace mote
