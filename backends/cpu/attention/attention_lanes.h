// Attention in registers, included by one source per instruction set: up to six query rows share each key and value,
// which are widened as they are loaded. The order is that of attention_kernels.h, from which comes what is not hot.
// A call's rows are cut into groups of at most six; a group goes through a block's scores, softmax and values before
// the next one, while the block lies in the cache.
#pragma once
#include "backends/cpu/attention/attention_kernels.h"
#include "backends/cpu/attention/lanes.h"
#include "core/base/math_blocks.h"

namespace mote {
namespace {

constexpr uint32_t kGroupRows = 6;

// How many Lanes of keys or values go with a group of so many rows: their sums are all in registers.
constexpr uint32_t wide_for(uint32_t rows) {
#if defined(__AVX512F__)
  return rows <= kGroupRows ? 4 : 1;   // of 32 registers
#else
  return rows <= 2 ? 2 : 1;   // of 16, two for each; on ARM of 32, four for each
#endif
}

// Lines that are wanted soon, two for each step of a kernel: a stride of 0 asks for nothing new.
struct Ahead {
  uintptr_t at;
  uint32_t stride;
  __attribute__((always_inline)) void step() {
    prefetch(at);
    prefetch(at + 64);
    at += stride;
  }
};
inline Ahead ahead_of(const void* from, bool wanted) { return {reinterpret_cast<uintptr_t>(from), wanted ? 128u : 0u}; }

// Products of kRows queries with 16 * kWide keys: q [key_dim, kRows], keys [kWide, key_dim, 16], scores [kRows, 64].
template <uint32_t kRows, uint32_t kWide, class Element>
void score_lanes(const Element* keys, uint32_t key_dim, const float* q, float* scores, Ahead& ahead) {
  Lanes sum[kRows][kWide];
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (uint32_t w = 0; w < kWide; ++w) sum[r][w] = same(0);
  const size_t next = size_t{key_dim} * kLanes;
  Ahead lines = ahead;
  for (uint32_t d = 0; d < key_dim; ++d) {
    lines.step();
    Lanes key[kWide];
#pragma GCC unroll 8
    for (uint32_t w = 0; w < kWide; ++w) key[w] = load(keys + w * next);
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
      const Lanes by = same(q[r]);
#pragma GCC unroll 8
      for (uint32_t w = 0; w < kWide; ++w) sum[r][w] = fma(by, key[w], sum[r][w]);
      if (kRows == kGroupRows) in_turn(sum[r][0], q);
    }
    keys += kLanes;
    q += kRows;
  }
  ahead = lines;
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (uint32_t w = 0; w < kWide; ++w) store(scores + r * kAttentionBlock + w * kLanes, sum[r][w]);
}

// Part of a call's rows and of a block.
struct Group {
  uint32_t first;        // row
  uint32_t begin, end;   // positions of the block that any of the rows sees, counted from its first
  float rescale[kGroupRows];
};

// o = (o * rescale + sum of p * values) + 0 for 16 * kWide dimensions, with positions begin .. end of the block:
// values [64, value_dim] from the first of these dimensions on, p [kRows, 64], o [kRows, record].
template <uint32_t kRows, uint32_t kWide, class Element>
void value_lanes(const Group& group, const Element* values, uint32_t value_dim, const float* p, float* o,
                 uint32_t record, Ahead& ahead) {
  Lanes sum[kRows][kWide];
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
    const Lanes by = same(group.rescale[r]);
#pragma GCC unroll 8
    for (uint32_t w = 0; w < kWide; ++w) sum[r][w] = multiply(load(o + r * record + w * kLanes), by);
  }
  const Element* at = values + size_t{group.begin} * value_dim;
  Ahead lines = ahead;
  for (uint32_t i = group.begin; i < group.end; ++i) {
    lines.step();
    Lanes value[kWide];
#pragma GCC unroll 8
    for (uint32_t w = 0; w < kWide; ++w) value[w] = load(at + w * kLanes);
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
      const Lanes by = same(p[r * kAttentionBlock + i]);
#pragma GCC unroll 8
      for (uint32_t w = 0; w < kWide; ++w) sum[r][w] = fma(by, value[w], sum[r][w]);
      if (kRows == kGroupRows) in_turn(sum[r][0], p);
    }
    at += value_dim;
  }
  ahead = lines;
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (uint32_t w = 0; w < kWide; ++w) store(o + r * record + w * kLanes, add(sum[r][w], same(0)));
}

// The same for the last dimensions, fewer than 16. No model is known to have such: one row after the other will do.
template <class Element>
void value_tail(const Group& group, uint32_t rows, const Element* values, uint32_t value_dim, const float* p, float* o,
                uint32_t record) {
  for (uint32_t r = 0; r < rows; ++r) {
    Lanes sum = multiply(load(o + r * record), same(group.rescale[r]));
    for (uint32_t i = group.begin; i < group.end; ++i)
      sum = fma(same(p[r * kAttentionBlock + i]), load_first(values + size_t{i} * value_dim, value_dim % kLanes), sum);
    store(o + r * record, add(sum, same(0)));
  }
}

// `soften` for a row that sees positions [begin, end) of the block; what lies elsewhere in p is replaced by 0. Gives
// what o is to be multiplied by. A row that sees nothing here stays as it is.
inline float soften_lanes(float* p, uint32_t begin, uint32_t end, float* record) {
  Lanes score[4];
  Lanes top = same(record[0]);
#pragma GCC unroll 4
  for (uint32_t w = 0; w < 4; ++w) score[w] = load(p + w * kLanes);
  if (begin != 0 || end != kAttentionBlock)
#pragma GCC unroll 4
    for (uint32_t w = 0; w < 4; ++w) score[w] = keep_between(score[w], w * kLanes, begin, end);
#pragma GCC unroll 4
  for (uint32_t w = 0; w < 4; ++w) top = larger(score[w], top);   // passes over a NaN
  const float m = largest(top), a = exp2_lane(record[0] - m);
#pragma GCC unroll 4
  for (uint32_t w = 0; w < 4; ++w) {
    score[w] = exp2_lanes(subtract(score[w], same(m)));
    store(p + w * kLanes, score[w]);
  }
  record[0] = m;
  store(record + 16, fma(load(record + 16), same(a), add(add(score[0], score[1]), add(score[2], score[3]))));
  return a;
}

// The soft cap of `cap_and_bias` for rows of 64 scores; those that nobody sees may be anything.
inline void cap_rows(const AttentionJob& job, float* p, uint32_t rows) {
  constexpr float kLog2EFloat = static_cast<float>(kLog2E);
  float block[kMathBlock];
  for (uint32_t first = 0; first < rows * kAttentionBlock; first += kMathBlock) {
    const uint32_t left = rows * kAttentionBlock - first, count = left < kMathBlock ? left : kMathBlock;
    for (uint32_t i = 0; i < kMathBlock; ++i) block[i] = i < count ? p[first + i] : 1.0f;
    softcap_block(static_cast<double>(job.softcap), block, block);
    for (uint32_t i = 0; i < count; ++i) {
      const float capped = block[i] * kLog2EFloat;
      p[first + i] = capped != capped ? __builtin_inff() : capped;
    }
  }
}

template <uint32_t kRows, class Element>
void attend_group(const AttentionJob& job, const AttentionScratch& s, uint32_t block, Group& group, bool fetch) {
  constexpr uint32_t kWide = wide_for(kRows);
  const size_t slot = block % job.capacity;
  const Element* keys = static_cast<const Element*>(job.keys) + slot * job.key_dim;
  const Element* values = static_cast<const Element*>(job.values) + slot * job.value_dim;
  const float* q = s.q + size_t{group.first} * job.key_dim;
  float* p = s.weights + group.first * kAttentionBlock;
  float* record = s.chunk + size_t{group.first} * s.record;

  Ahead ahead = ahead_of(values, fetch);
  uint32_t at = group.begin / kLanes * kLanes;
  for (; at + (kWide - 1) * kLanes < group.end; at += kWide * kLanes)
    score_lanes<kRows, kWide>(keys + size_t{at} * job.key_dim, job.key_dim, q, p + at, ahead);
  for (; at < group.end; at += kLanes)
    score_lanes<kRows, 1>(keys + size_t{at} * job.key_dim, job.key_dim, q, p + at, ahead);
  const uint32_t scored = at;
  if (job.softcap != 0) cap_rows(job, p, kRows);
  for (uint32_t r = 0; r < kRows; ++r) {
    const uint32_t item = group.first + r;
    if (job.bias[item] != nullptr)
      for (at = group.begin / kLanes * kLanes; at < scored; at += kLanes)
        add_bias(job, item, block + at, p + r * kAttentionBlock + at);
    const uint32_t first = first_visible(job, item), end = job.position[item] + 1;
    uint32_t from = first > block ? first - block : 0, to = end > block ? end - block : 0;
    from = from < kAttentionBlock ? from : kAttentionBlock;
    to = to < kAttentionBlock ? to : kAttentionBlock;
    group.rescale[r] = soften_lanes(p + r * kAttentionBlock, from, to, record + r * s.record);
  }
  ahead = ahead_of(keys + size_t{kAttentionBlock} * job.key_dim, fetch);
  uint32_t d = 0;
  for (; d + kWide * kLanes <= job.value_dim; d += kWide * kLanes)
    value_lanes<kRows, kWide>(group, values + d, job.value_dim, p, record + 32 + d, s.record, ahead);
  for (; d + kLanes <= job.value_dim; d += kLanes)
    value_lanes<kRows, 1>(group, values + d, job.value_dim, p, record + 32 + d, s.record, ahead);
  if (d < job.value_dim) value_tail(group, kRows, values + d, job.value_dim, p, record + 32 + d, s.record);
}

// What the group sees of the block; an empty range is nothing.
inline void look(const AttentionJob& job, uint32_t rows, uint32_t block, Group& group) {
  group.begin = kAttentionBlock;
  group.end = 0;
  for (uint32_t item = group.first; item < group.first + rows; ++item) {
    if (!sees(job, item, block, kAttentionBlock)) continue;
    const uint32_t first = first_visible(job, item), end = job.position[item] + 1;
    const uint32_t begin = first > block ? first - block : 0;
    const uint32_t seen = end - block < kAttentionBlock ? end - block : kAttentionBlock;
    group.begin = begin < group.begin ? begin : group.begin;
    group.end = seen > group.end ? seen : group.end;
  }
}

template <class Element>
void attend_chunk_lanes(const AttentionJob& job, const AttentionScratch& s, uint32_t chunk) {
  using Kernel = void (*)(const AttentionJob&, const AttentionScratch&, uint32_t, Group&, bool);
  constexpr Kernel kKernels[kGroupRows] = {attend_group<1, Element>, attend_group<2, Element>,
                                           attend_group<3, Element>, attend_group<4, Element>,
                                           attend_group<5, Element>, attend_group<6, Element>};
  const Blocks blocks = start_chunk(job, s, chunk);
  const uint32_t groups = (job.items + kGroupRows - 1) / kGroupRows;
  for (uint32_t block = blocks.first; block < blocks.end; block += kAttentionBlock) {
    bool fetch = true;
    for (uint32_t g = 0; g < groups; ++g) {
      Group group = {};
      group.first = job.items * g / groups;
      const uint32_t rows = job.items * (g + 1) / groups - group.first;
      look(job, rows, block, group);
      if (group.begin >= group.end) continue;
      kKernels[rows - 1](job, s, block, group, fetch);
      fetch = false;
    }
  }
}

// q, scaled, as [group][key_dim, rows of the group].
inline void scale_groups(const AttentionJob& job, const AttentionScratch& s) {
  const float factor = query_factor(job);
  const uint32_t groups = (job.items + kGroupRows - 1) / kGroupRows;
  for (uint32_t g = 0; g < groups; ++g) {
    const uint32_t first = job.items * g / groups, rows = job.items * (g + 1) / groups - first;
    float* to = s.q + size_t{first} * job.key_dim;
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t d = 0; d < job.key_dim; ++d) to[size_t{d} * rows + r] = job.q[first + r][d] * factor;
  }
}

template <class Element>
void attend_lanes(const AttentionJob& job) {
  const AttentionScratch s = place_scratch(job);
  scale_groups(job, s);
  attend_chunks(job, s, [&](uint32_t chunk) { attend_chunk_lanes<Element>(job, s, chunk); });
}

#define MOTE_CPU_ATTENTION_LANES_TABLE \
  {attend_lanes<uint16_t>, attend_lanes<float>, weigh<uint16_t>, weigh<float>, merge_chunks}

}   // namespace
}   // namespace mote
