// Runs `append`, `attention` and `attention_weights`: which rows share a call, and who computes what.
#include <algorithm>
#include <atomic>

#include "backends/cpu/step.h"
#include "mote_build.h"

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

// The query rows of one KV head are items, numbered row * group + head of the group; a call takes some that follow each
// other.
struct Work {
  const float* q;
  float* y;
  const KvState* state;
  AttentionAttributes attributes;
  KvType kv_type;
  const float* bias;   // [heads, 2 * max_distance + 1] or null
  uint32_t first_position, n_encoded;
  uint32_t rows, group;   // group: heads that share a KV head
  size_t y_columns;       // of each row and head: values, or weights of so many positions
  const AttentionTable* table;

  AttentionJob job(uint32_t kv_head, uint32_t first, uint32_t items) const {
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
    job.items = items;
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
    job.first_chunk = first_seen(job.position[0]) / kAttentionChunk;
    job.end_chunk = job.position[job.items - 1] / kAttentionChunk + 1;
    return job;
  }
  uint32_t last_seen(uint32_t row) const { return attributes.sees == Sees::all ? n_encoded - 1 : first_position + row; }
  uint32_t first_seen(uint32_t position) const {
    const uint32_t window = state->info().window;
    return window == 0 || position < window ? 0 : position - window + 1;
  }
  // Of a step whose queries and keys cost `columns` each.
  uint64_t cost(uint32_t columns) const {
    return uint64_t{rows} * attributes.n_heads * columns * (uint64_t{last_seen(rows - 1)} + 1);
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

// Where share `index` of `count` even shares begins.
uint32_t border(uint32_t total, uint32_t index, uint32_t count) {
  return static_cast<uint32_t>(uint64_t{total} * index / count);
}

// One row's pieces of work: a chunk of positions for heads that share a KV head, all of them, so that each key is read
// once. What is left when the lanes have taken as many of these as they can evenly is split by heads, large chunks
// first: 3 KV heads for 2 lanes are two pieces, and one in two halves.
struct Pieces {
  uint32_t chunks, skipped;       // chunks come in the order skipped, skipped + 1, .., 0: small ones last
  uint32_t parts;                 // of a KV head's group, where it is more than a call takes
  uint32_t whole, split, tiles;   // units (chunk, KV head, part) that are a piece, then such as are `tiles` pieces
  uint32_t count;

  Pieces(const Work& work, uint32_t lanes) {
    const uint32_t kv_heads = work.state->info().n_kv_heads, last = work.last_seen(0);
    const uint32_t first = work.first_seen(last), first_chunk = first / kAttentionChunk;
    chunks = last / kAttentionChunk + 1 - first_chunk;
    parts = (work.group + kAttentionItems - 1) / kAttentionItems;
    // What is seen of the first chunk and of the last; those between are full.
    const uint32_t head = std::min(last + 1, (first_chunk + 1) * kAttentionChunk) - first,
                   tail = chunks == 1 ? head : last % kAttentionChunk + 1;
    const uint32_t most = chunks > 2 ? kAttentionChunk : std::max(head, tail);
    skipped = head < most / 2 ? 1 : 0;
    const uint32_t large = chunks - skipped - (chunks > 1 && tail < most / 2 ? 1 : 0);
    const uint32_t units = large * kv_heads * parts, rest = units % lanes;
    tiles = rest == 0 ? 1 : std::clamp<uint32_t>(lanes / rest, 1, work.group / parts);
    split = tiles == 1 ? 0 : rest;
    whole = units - split;
    count = whole + split * tiles + (chunks - large) * kv_heads * parts;
  }
};

// Piece `index` as a call. `chunk` is counted from the first that the row sees.
AttentionJob piece_job(const Work& work, const Pieces& pieces, uint32_t index, uint32_t* first_head, uint32_t* chunk) {
  const uint32_t kv_heads = work.state->info().n_kv_heads, behind = pieces.whole + pieces.split * pieces.tiles;
  uint32_t unit = index, tile = 0, tiles = 1;
  if (index >= behind) {
    unit = index - behind + pieces.whole + pieces.split;
  } else if (index >= pieces.whole) {
    unit = pieces.whole + (index - pieces.whole) / pieces.tiles;
    tile = (index - pieces.whole) % pieces.tiles;
    tiles = pieces.tiles;
  }
  *chunk = (unit / (kv_heads * pieces.parts) + pieces.skipped) % pieces.chunks;
  const uint32_t kv_head = unit / pieces.parts % kv_heads, part = unit % pieces.parts;
  const uint32_t begin = border(work.group, part, pieces.parts),
                 heads = border(work.group, part + 1, pieces.parts) - begin;
  const uint32_t first = begin + border(heads, tile, tiles), end = begin + border(heads, tile + 1, tiles);
  AttentionJob job = work.job(kv_head, first, end - first);
  job.first_chunk += *chunk;
  job.end_chunk = job.first_chunk + 1;
  *first_head = kv_head * work.group + first;
  return job;
}

// One row. Where it sees several chunks, their records are merged in order.
void attend_row(const Work& work, const RunContext& context) {
  const StateInfo& info = work.state->info();
  const Pieces pieces(work, context.parallel.lanes);
  const uint32_t record = attention_record_floats(info.value_dim);
  const size_t head_floats = size_t{context.scratch.record_chunks} * record;
  float* records = context.scratch.records.data();
  for_pieces(context.parallel, pieces.count, 1, work.cost(info.key_dim + info.value_dim),
             [&](uint32_t begin, uint32_t end, uint32_t lane) {
               for (uint32_t piece = begin; piece < end && !context.cancel.requested(); ++piece) {
                 uint32_t head = 0, chunk = 0;
                 AttentionJob job = piece_job(work, pieces, piece, &head, &chunk);
                 job.scratch = lane_scratch(context, lane);
                 if (pieces.chunks > 1)
                   for (uint32_t i = 0; i < job.items; ++i)
                     job.record[i] = records + (head + i) * head_floats + size_t{chunk} * record;
                 work.run(job);
               }
             });
  if (pieces.chunks == 1 || context.cancel.requested()) return;   // cancelled: some records may be what they were
  for (size_t head = 0; head < work.attributes.n_heads; ++head)
    work.table->merge(records + head * head_floats, pieces.chunks, info.value_dim, work.y + head * info.value_dim);
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
  if (nan_row < rows) context.first_nan.note(first + nan_row, *prepared.step);
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
  return work;
}

Status check_encoded(const Work& work, uint32_t layer) {
  if (work.attributes.sees != Sees::all || (work.n_encoded != 0 && work.n_encoded <= work.state->capacity())) return {};
  return Status::error(Code::invalid_argument, "a batch reads {} encoded positions, layer {} has {}", work.n_encoded,
                       layer, work.state->capacity());
}

// Calls kernel(job) for every tile of items: as large as they may be, but at least two per lane; `columns`: what a
// query and a key cost.
template <class Kernel>
void for_tiles(const Work& work, const RunContext& context, uint32_t columns, Kernel kernel) {
  const uint32_t kv_heads = work.state->info().n_kv_heads, items = work.rows * work.group;
  const uint64_t share = uint64_t{items} * kv_heads / (uint64_t{context.parallel.lanes} * 2);
  const auto most = static_cast<uint32_t>(std::clamp<uint64_t>(share, 1, kAttentionItems));
  const uint32_t tiles = (items + most - 1) / most;
  for_pieces(
      context.parallel, kv_heads * tiles, 1, work.cost(columns), [&](uint32_t begin, uint32_t end, uint32_t lane) {
        for (uint32_t piece = begin; piece < end && !context.cancel.requested(); ++piece) {
          const uint32_t first = border(items, piece % tiles, tiles), behind = border(items, piece % tiles + 1, tiles);
          AttentionJob job = work.job(piece / tiles, first, behind - first);
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
  if (work.rows == 1)
    attend_row(work, context);
  else
    for_tiles(work, context, info.key_dim + info.value_dim, [&](const AttentionJob& job) { work.run(job); });
  return context.not_cancelled();
}

Status run_attention_weights(const PreparedStep& prepared, const RunContext& context) {
  Work work = work_of(prepared, context);
  work.y_columns = positions_of(prepared.step->output, context.batch);
  if (work.rows == 0) return {};
  MOTE_RETURN_IF_ERROR(check_encoded(work, prepared.step->layer));
  const auto weigh = work.kv_type == KvType::f16 ? work.table->weigh_f16 : work.table->weigh_f32;
  for_tiles(work, context, work.state->info().key_dim, weigh);
  return context.not_cancelled();
}

}   // namespace mote
