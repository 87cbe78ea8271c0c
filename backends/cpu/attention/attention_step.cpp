// Runs `append`, `attention` and `attention_weights`: which rows share a call, and who computes what.
#include <algorithm>
#include <atomic>

#include "backends/cpu/step.h"

namespace mote {

#define MOTE_CPU_KERNEL(required, name) extern const AttentionTable attention_##name;
#include "backends/cpu/attention/kernels.inc"
#undef MOTE_CPU_KERNEL

namespace {

constexpr AttentionVariant kVariants[] = {
#define MOTE_CPU_KERNEL(required, name) {required, #name, &attention_##name},
#include "backends/cpu/attention/kernels.inc"
#undef MOTE_CPU_KERNEL
};

// The query rows of one KV head are numbered row * group + head of the group; a tile takes some that follow each other.
struct Work {
  const float* q;
  float* y;
  const KvState* state;
  AttentionAttributes attributes;
  KvType kv_type;
  const float* bias;   // [heads, 2 * max_distance + 1] or null
  uint32_t first_position, n_encoded;
  uint32_t rows, group;   // group: heads that share a KV head
  uint32_t tile, tiles;   // items of a tile; tiles of a KV head
  size_t y_columns;       // of each row and head: values, or weights of so many positions
  const AttentionTable* table;

  AttentionJob job(uint32_t kv_head, uint32_t tile_index) const {
    const StateInfo& info = state->info();
    AttentionJob job = {};
    job.keys = state->keys(kv_head);
    job.values = state->values(kv_head);
    job.key_dim = info.key_dim;
    job.value_dim = info.value_dim;
    job.capacity = state->capacity();
    job.window = info.window;
    job.scale = attributes.scale;
    job.softcap = attributes.softcap;
    job.max_distance = attributes.max_distance;
    const uint32_t first = tile_index * tile;
    job.items = std::min(tile, rows * group - first);
    for (uint32_t i = 0; i < job.items; ++i) {
      const uint32_t row = (first + i) / group, head = kv_head * group + (first + i) % group;
      const size_t at = size_t{row} * attributes.n_heads + head;
      job.q[i] = q + at * info.key_dim;
      job.y[i] = y + at * y_columns;
      job.position[i] = last_seen(row);
      job.own_position[i] = first_position + row;
      if (bias != nullptr) job.bias[i] = bias + head * (2 * size_t{attributes.max_distance} + 1);
    }
    job.n_positions = static_cast<uint32_t>(y_columns);
    job.first_chunk = first_chunk(job.position[0]);
    job.end_chunk = job.position[job.items - 1] / kAttentionChunk + 1;
    return job;
  }
  uint32_t last_seen(uint32_t row) const { return attributes.sees == Sees::all ? n_encoded - 1 : first_position + row; }
  uint32_t first_chunk(uint32_t position) const {
    const uint32_t window = state->info().window;
    return (window == 0 || position < window ? 0 : position - window + 1) / kAttentionChunk;
  }
  void run(const AttentionJob& job) const { kv_type == KvType::f16 ? table->attend_f16(job) : table->attend_f32(job); }
};

void lower_to(std::atomic<uint32_t>& least, uint32_t value) {
  uint32_t seen = least.load(std::memory_order_relaxed);
  while (value < seen && !least.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

float* lane_scratch(const RunContext& context, uint32_t lane) {
  return static_cast<float*>(context.scratch.lane(lane));
}

// One row: every chunk is a piece of work of its own, and their records are merged in order.
void attend_split(const Work& work, const RunContext& context, uint32_t chunks) {
  const StateInfo& info = work.state->info();
  const uint32_t record = attention_record_floats(info.value_dim);
  float* records = context.scratch.records.data();
  const uint32_t pieces = info.n_kv_heads * work.tiles * chunks;
  for_pieces(context.parallel, pieces, 1, UINT64_MAX, [&](uint32_t begin, uint32_t end, uint32_t lane) {
    for (uint32_t piece = begin; piece < end; ++piece) {
      const uint32_t kv_head = piece / chunks / work.tiles, tile = piece / chunks % work.tiles, chunk = piece % chunks;
      AttentionJob job = work.job(kv_head, tile);
      job.first_chunk += chunk;
      job.end_chunk = job.first_chunk + 1;
      job.scratch = lane_scratch(context, lane);
      for (uint32_t i = 0; i < job.items; ++i) {
        const size_t head = kv_head * work.group + tile * work.tile + i;
        job.record[i] = records + (head * context.scratch.record_chunks + chunk) * record;
      }
      work.run(job);
    }
  });
  for (size_t head = 0; head < work.attributes.n_heads; ++head)
    work.table->merge(records + head * context.scratch.record_chunks * record, chunks, info.value_dim,
                      work.y + head * info.value_dim);
}

}   // namespace

std::span<const AttentionVariant> attention_variants() { return kVariants; }

Status run_append(const PreparedStep& prepared, const RunContext& context) {
  KvState& state = context.states[prepared.step->state.id];
  const uint32_t rows = static_cast<uint32_t>(context.batch.tokens.size()), first = context.batch.first_position;
  const float *keys = context.input(prepared, 0), *values = context.input(prepared, 1);
  const size_t key_columns = prepared.step->inputs[0].columns, value_columns = prepared.step->inputs[1].columns;
  state.enter(first, rows);
  const uint64_t cost = uint64_t{rows} * (key_columns + value_columns) * 2;
  std::atomic<uint32_t> first_nan_row{rows};
  for_pieces(context.parallel, rows, 16, cost, [&](uint32_t begin, uint32_t end, uint32_t) {
    for (uint32_t row = begin; row < end; ++row) {
      if (!state.write_row(first + row, keys + row * key_columns, values + row * value_columns))
        lower_to(first_nan_row, row);
    }
  });
  const uint32_t nan_row = first_nan_row.load(std::memory_order_relaxed);
  if (nan_row < rows) context.first_nan.note(first + nan_row, prepared.step->layer);
  return {};
}

namespace {

Work work_of(const PreparedStep& prepared, const RunContext& context) {
  Work work = {};
  work.q = context.input(prepared, 0);
  work.y = context.output(prepared);
  work.state = &context.states[prepared.step->state.id];
  work.attributes = prepared.step->attributes.attention;
  work.kv_type = context.kv_type;
  work.bias = prepared.step->vector.data;
  work.first_position = context.batch.first_position;
  work.n_encoded = context.batch.n_encoded;
  work.rows = static_cast<uint32_t>(context.batch.tokens.size());
  const uint32_t kv_heads = work.state->info().n_kv_heads;
  work.group = work.attributes.n_heads / kv_heads;
  work.table = prepared.attention;
  // Tiles as large as they may be, but at least two per lane.
  const uint64_t items = uint64_t{work.rows} * work.group;
  const uint64_t share = items * kv_heads / (uint64_t{context.parallel.lanes} * 2);
  work.tile = static_cast<uint32_t>(std::clamp<uint64_t>(share, 1, kAttentionItems));
  work.tiles = static_cast<uint32_t>((items + work.tile - 1) / work.tile);
  return work;
}

Status check_encoded(const Work& work, uint32_t layer) {
  if (work.attributes.sees != Sees::all || (work.n_encoded != 0 && work.n_encoded <= work.state->capacity())) return {};
  return Status::error(Code::invalid_argument, "a batch reads {} encoded positions, layer {} has {}", work.n_encoded,
                       layer, work.state->capacity());
}

// Calls kernel(job) for every tile; `columns`: what a query and a key cost.
template <class Kernel>
void for_tiles(const Work& work, const RunContext& context, uint32_t columns, Kernel kernel) {
  const uint32_t kv_heads = work.state->info().n_kv_heads, last = work.last_seen(work.rows - 1);
  const uint64_t cost = uint64_t{work.rows} * work.group * kv_heads * columns * (uint64_t{last} + 1);
  for_pieces(context.parallel, kv_heads * work.tiles, 1, cost, [&](uint32_t begin, uint32_t end, uint32_t lane) {
    for (uint32_t piece = begin; piece < end; ++piece) {
      AttentionJob job = work.job(piece / work.tiles, piece % work.tiles);
      job.scratch = lane_scratch(context, lane);
      kernel(job);
    }
  });
}

}   // namespace

Status run_attention(const PreparedStep& prepared, const RunContext& context) {
  Work work = work_of(prepared, context);
  const StateInfo& info = work.state->info();
  work.y_columns = info.value_dim;
  if (work.rows == 0) return {};
  MOTE_RETURN_IF_ERROR(check_encoded(work, prepared.step->layer));
  const uint32_t last = work.last_seen(work.rows - 1);
  const uint32_t chunks = last / kAttentionChunk + 1 - work.first_chunk(work.last_seen(0));
  if (work.rows == 1 && chunks > 1)
    attend_split(work, context, chunks);
  else
    for_tiles(work, context, info.key_dim + info.value_dim, [&](const AttentionJob& job) { work.run(job); });
  return {};
}

Status run_attention_weights(const PreparedStep& prepared, const RunContext& context) {
  Work work = work_of(prepared, context);
  work.y_columns = positions_of(prepared.step->output, context.batch);
  if (work.rows == 0) return {};
  MOTE_RETURN_IF_ERROR(check_encoded(work, prepared.step->layer));
  const auto weigh = work.kv_type == KvType::f16 ? work.table->weigh_f16 : work.table->weigh_f32;
  for_tiles(work, context, work.state->info().key_dim, weigh);
  return {};
}

}   // namespace mote
