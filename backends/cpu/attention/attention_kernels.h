// Attention in plain loops of 16 lanes, included by one source per instruction set: a lane is a position for the
// scores and a dimension for the values. Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/attention/attention.h"
#include "backends/cpu/kernel_base.h"
#include "core/base/math.h"

namespace mote {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();
constexpr double kLog2E = 1.4426950408889634;

// Where the pieces lie in a lane's scratch.
struct AttentionScratch {
  float* keys;       // [key_dim, 16]: 16 positions widened
  float* values;     // [16, padded]: 16 positions widened
  float* q;          // [items, key_dim], scaled
  float* weights;    // [items, 64]: scores, then p
  float* chunk;      // [items, record]
  float* total;      // [items, record]
  uint32_t padded;   // value_dim rounded up to 16
  uint32_t record;
};

inline AttentionScratch place_scratch(const AttentionJob& job) {
  AttentionScratch s = {};
  s.padded = (job.value_dim + 15) / 16 * 16;
  s.record = attention_record_floats(job.value_dim);
  s.keys = job.scratch;
  s.values = s.keys + size_t{job.key_dim} * 16;
  s.chunk = s.values + size_t{s.padded} * 16;
  s.total = s.chunk + size_t{kAttentionItems} * s.record;
  s.weights = s.total + size_t{kAttentionItems} * s.record;
  s.q = s.weights + kAttentionItems * kAttentionBlock;
  return s;
}

inline void widen(const uint16_t* from, uint32_t count, float* to) { halves_to_floats(from, count, to); }
inline void widen(const float* from, uint32_t count, float* to) {
  __builtin_memcpy(to, from, size_t{count} * sizeof(float));
}

// sum[i] = fma(a, b[i], sum[i]).
inline void fma_lanes_by(float* sum, float a, const float* b) {
  float wide[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) wide[i] = a;
  fma_lanes(sum, wide, b);
}

inline uint32_t first_visible(const AttentionJob& job, uint32_t item) {
  const uint32_t position = job.position[item];
  return job.window == 0 || position < job.window ? 0 : position - job.window + 1;
}
// Whether item sees any of the positions [begin, begin + count).
inline bool sees(const AttentionJob& job, uint32_t item, uint32_t begin, uint32_t count) {
  return job.position[item] >= begin && first_visible(job, item) < begin + count;
}

// Adds the bias of the distances from the item's own position to [begin, begin + 16).
inline void add_bias(const AttentionJob& job, uint32_t item, uint32_t begin, float* lanes) {
  constexpr float kLog2EFloat = static_cast<float>(kLog2E);
  const auto farthest = static_cast<int32_t>(job.max_distance);   // positions and distances are below 2^31
  const int32_t first = static_cast<int32_t>(begin) - static_cast<int32_t>(job.own_position[item]);
  for (uint32_t i = 0; i < kLanes; ++i) {
    int32_t distance = first + static_cast<int32_t>(i);
    distance = distance < -farthest ? -farthest : distance;
    distance = distance > farthest ? farthest : distance;
    lanes[i] = lanes[i] + job.bias[item][static_cast<uint32_t>(distance + farthest)] * kLog2EFloat;
  }
}

// What comes between the products and the mask, for the positions [begin, begin + 16).
inline void cap_and_bias(const AttentionJob& job, uint32_t item, uint32_t begin, float* lanes) {
  if (job.softcap != 0) {
    constexpr float kLog2EFloat = static_cast<float>(kLog2E);
    const double cap = static_cast<double>(job.softcap);
    for (uint32_t i = 0; i < kLanes; ++i) {
      const float capped = static_cast<float>(cap * tanh_f64(static_cast<double>(lanes[i]) / cap)) * kLog2EFloat;
      lanes[i] = capped != capped ? __builtin_inff() : capped;
    }
  }
  if (job.bias[item] != nullptr) add_bias(job, item, begin, lanes);
}

template <class Element>
void score_block(const AttentionJob& job, const AttentionScratch& s, uint32_t block) {
  for (uint32_t sub = 0; sub < kAttentionBlock; sub += kLanes) {
    const uint32_t begin = block + sub;
    bool widened = false;
    for (uint32_t item = 0; item < job.items; ++item) {
      float* scores = s.weights + item * kAttentionBlock + sub;
      if (!sees(job, item, begin, kLanes)) {
        for (uint32_t i = 0; i < kLanes; ++i) scores[i] = kMinusInfinity;
        continue;
      }
      if (!widened) {
        const size_t slot = begin % job.capacity;
        widen(static_cast<const Element*>(job.keys) + slot * job.key_dim, job.key_dim * kLanes, s.keys);
        widened = true;
      }
      float lanes[kLanes] = {};
      const float* q = s.q + size_t{item} * job.key_dim;
      for (uint32_t d = 0; d < job.key_dim; ++d) fma_lanes_by(lanes, q[d], s.keys + size_t{d} * kLanes);
      cap_and_bias(job, item, begin, lanes);
      const uint32_t first = first_visible(job, item), position = job.position[item];
      for (uint32_t i = 0; i < kLanes; ++i)
        scores[i] = begin + i >= first && begin + i <= position ? lanes[i] : kMinusInfinity;
    }
  }
}

// Scores of one item become p; its m, l and o are brought to the new largest score.
inline void soften(float* p, float* record, uint32_t padded) {
  float top = record[0];
  for (uint32_t i = 0; i < kAttentionBlock; ++i) top = p[i] > top ? p[i] : top;
  const float a = exp2_lane(record[0] - top);
  record[0] = top;
  for (uint32_t i = 0; i < kAttentionBlock; ++i) p[i] = exp2_lane(p[i] - top);
  float *l = record + 16, *o = record + 32;
  float rescale[kLanes], sum[kLanes];
  for (uint32_t j = 0; j < kLanes; ++j) rescale[j] = a;
  for (uint32_t j = 0; j < kLanes; ++j) sum[j] = (p[j] + p[j + 16]) + (p[j + 32] + p[j + 48]);
  fma_lanes(sum, l, rescale);
  for (uint32_t j = 0; j < kLanes; ++j) l[j] = sum[j];
  for (uint32_t d = 0; d < padded; ++d) o[d] = o[d] * a;
}

template <class Element>
void value_block(const AttentionJob& job, const AttentionScratch& s, uint32_t block) {
  for (uint32_t sub = 0; sub < kAttentionBlock; sub += kLanes) {
    bool widened = false;
    for (uint32_t item = 0; item < job.items; ++item) {
      if (!sees(job, item, block + sub, kLanes)) continue;
      if (!widened) {
        const size_t slot = (block + sub) % job.capacity;
        const Element* from = static_cast<const Element*>(job.values) + slot * job.value_dim;
        for (uint32_t i = 0; i < kLanes; ++i)
          widen(from + size_t{i} * job.value_dim, job.value_dim, s.values + i * s.padded);
        widened = true;
      }
      const float* p = s.weights + item * kAttentionBlock + sub;
      float* o = s.chunk + size_t{item} * s.record + 32;
      for (uint32_t d = 0; d < s.padded; d += kLanes) {
        float lanes[kLanes];
        for (uint32_t j = 0; j < kLanes; ++j) lanes[j] = o[d + j];
        for (uint32_t i = 0; i < kLanes; ++i) fma_lanes_by(lanes, p[i], s.values + i * s.padded + d);
        for (uint32_t j = 0; j < kLanes; ++j) o[d + j] = lanes[j];
      }
    }
  }
}

// total = total and chunk; both are records.
inline void merge_records(float* total, const float* chunk, uint32_t padded) {
  const float top = chunk[0] > total[0] ? chunk[0] : total[0];
  const float a = exp2_lane(total[0] - top), b = exp2_lane(chunk[0] - top);
  total[0] = top;
  float by[kLanes], sum[kLanes];
  for (uint32_t j = 0; j < kLanes; ++j) by[j] = b;
  for (uint32_t at = 16; at < 32 + padded; at += kLanes) {
    for (uint32_t j = 0; j < kLanes; ++j) sum[j] = total[at + j] * a;
    fma_lanes(sum, chunk + at, by);
    for (uint32_t j = 0; j < kLanes; ++j) total[at + j] = sum[j];
  }
}

inline void finish_record(const float* record, uint32_t value_dim, float* y) {
  float l[kLanes];
  for (uint32_t j = 0; j < kLanes; ++j) l[j] = record[16 + j];
  const float sum = fold16(l);
  uint32_t d = 0;
  for (; d + kLanes <= value_dim; d += kLanes) {   // by way of lanes: compilers do not know that y lies elsewhere
    for (uint32_t j = 0; j < kLanes; ++j) l[j] = record[32 + d + j] / sum;
    for (uint32_t j = 0; j < kLanes; ++j) y[d + j] = l[j];
  }
  for (; d < value_dim; ++d) y[d] = record[32 + d] / sum;
}

inline void clear_record(float* record, uint32_t floats) {
  for (uint32_t i = 0; i < floats; ++i) record[i] = 0;
  record[0] = kMinusInfinity;
}

// The blocks of a chunk that any item sees: [first, end), empty if there is none. Clears the records of the chunk.
struct Blocks {
  uint32_t first, end;
};
inline Blocks start_chunk(const AttentionJob& job, const AttentionScratch& s, uint32_t chunk) {
  const uint32_t begin = chunk * kAttentionChunk;
  uint32_t first = ~0u, last = 0;
  for (uint32_t item = 0; item < job.items; ++item) {
    clear_record(s.chunk + size_t{item} * s.record, s.record);
    if (!sees(job, item, begin, kAttentionChunk)) continue;
    first = first_visible(job, item) < first ? first_visible(job, item) : first;
    last = job.position[item] > last ? job.position[item] : last;
  }
  if (first > last) return {begin, begin};
  first = first < begin ? begin : first / kAttentionBlock * kAttentionBlock;
  return {first, last < begin + kAttentionChunk ? last + 1 : begin + kAttentionChunk};
}

template <class Element>
void attend_chunk(const AttentionJob& job, const AttentionScratch& s, uint32_t chunk) {
  const Blocks blocks = start_chunk(job, s, chunk);
  for (uint32_t block = blocks.first; block < blocks.end; block += kAttentionBlock) {
    score_block<Element>(job, s, block);
    for (uint32_t item = 0; item < job.items; ++item)
      if (sees(job, item, block, kAttentionBlock))
        soften(s.weights + item * kAttentionBlock, s.chunk + size_t{item} * s.record, s.padded);
    value_block<Element>(job, s, block);
    for (uint32_t item = 0; item < job.items; ++item) {
      if (!sees(job, item, block, kAttentionBlock)) continue;
      float* o = s.chunk + size_t{item} * s.record + 32;
      for (uint32_t d = 0; d < s.padded; ++d) o[d] = o[d] + 0.0f;
    }
  }
}

inline float query_factor(const AttentionJob& job) {
  return job.softcap != 0 ? job.scale : static_cast<float>(static_cast<double>(job.scale) * kLog2E);
}
inline void scale_queries(const AttentionJob& job, const AttentionScratch& s) {
  const float factor = query_factor(job);
  for (uint32_t item = 0; item < job.items; ++item)
    for (uint32_t d = 0; d < job.key_dim; ++d) s.q[size_t{item} * job.key_dim + d] = job.q[item][d] * factor;
}

// Chunk by chunk, by attend_one(chunk), into the outputs.
template <class AttendOne>
void attend_chunks(const AttentionJob& job, const AttentionScratch& s, AttendOne attend_one) {
  bool started[kAttentionItems] = {};
  for (uint32_t chunk = job.first_chunk; chunk < job.end_chunk; ++chunk) {
    attend_one(chunk);
    for (uint32_t item = 0; item < job.items; ++item) {
      if (!sees(job, item, chunk * kAttentionChunk, kAttentionChunk)) continue;
      float *total = s.total + size_t{item} * s.record, *part = s.chunk + size_t{item} * s.record;
      if (started[item])
        merge_records(total, part, s.padded);
      else
        __builtin_memcpy(total, part, s.record * sizeof(float));
      started[item] = true;
    }
  }
  for (uint32_t item = 0; item < job.items; ++item) {
    const float* total = s.total + size_t{item} * s.record;
    if (job.record[item] != nullptr)
      __builtin_memcpy(job.record[item], total, s.record * sizeof(float));
    else
      finish_record(total, job.value_dim, job.y[item]);
  }
}

template <class Element>
void attend(const AttentionJob& job) {
  const AttentionScratch s = place_scratch(job);
  scale_queries(job, s);
  for (uint32_t i = 0; i < kLanes; ++i)   // the padding of widened values, once
    for (uint32_t d = job.value_dim; d < s.padded; ++d) s.values[i * s.padded + d] = 0;
  attend_chunks(job, s, [&](uint32_t chunk) { attend_chunk<Element>(job, s, chunk); });
}

void merge_chunks(float* records, uint32_t count, uint32_t value_dim, float* y) {
  const uint32_t record = attention_record_floats(value_dim);
  for (uint32_t i = 1; i < count; ++i) merge_records(records, records + size_t{i} * record, record - 32);
  finish_record(records, value_dim, y);
}

// Scores [first, end) become weights.
inline void weigh_row(float* row, uint32_t first, uint32_t end) {
  float top = kMinusInfinity;
  for (uint32_t i = first; i < end; ++i) top = row[i] > top ? row[i] : top;
  double sum = 0;
  for (uint32_t i = first; i < end; ++i) {
    row[i] = exp2_lane(row[i] - top);
    sum += static_cast<double>(row[i]);
  }
  for (uint32_t i = first; i < end; ++i) row[i] = static_cast<float>(static_cast<double>(row[i]) / sum);
}

// The scores are those of `attend`; a row of weights holds them meanwhile.
template <class Element>
void weigh(const AttentionJob& job) {
  const AttentionScratch s = place_scratch(job);
  scale_queries(job, s);
  uint32_t first = ~0u, last = 0;   // what any item sees
  for (uint32_t item = 0; item < job.items; ++item) {
    for (uint32_t i = 0; i < job.n_positions; ++i) job.y[item][i] = 0;
    first = first_visible(job, item) < first ? first_visible(job, item) : first;
    last = job.position[item] > last ? job.position[item] : last;
  }
  for (uint32_t block = first / kAttentionBlock * kAttentionBlock; block <= last; block += kAttentionBlock) {
    score_block<Element>(job, s, block);
    for (uint32_t item = 0; item < job.items; ++item) {
      const uint32_t visible = first_visible(job, item), position = job.position[item];
      for (uint32_t i = 0; i < kAttentionBlock; ++i)
        if (block + i >= visible && block + i <= position)
          job.y[item][block + i] = s.weights[item * kAttentionBlock + i];
    }
  }
  for (uint32_t item = 0; item < job.items; ++item)
    weigh_row(job.y[item], first_visible(job, item), job.position[item] + 1);
}

#define MOTE_CPU_ATTENTION_TABLE {attend<uint16_t>, attend<float>, weigh<uint16_t>, weigh<float>, merge_chunks}

}   // namespace
}   // namespace mote
