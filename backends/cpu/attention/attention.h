// softmax(q k) v over the cache of kv_state.h: what a kernel gets, and the order it keeps.
//
// Canonical order of one output row (one query position, one head). q is first multiplied by one f32 number:
// scale * log2(e), formed in double and rounded once; with a soft cap by `scale` alone. The query at position p sees
// positions begin .. p, begin = 0 or, with a window w, max(0, p - w + 1); one that sees all of an encoder's input sees
// positions 0 .. n - 1, whatever its own: the order is that of a query at position n - 1, but for the bias.
//
//   score s[i] = fma chain over d = 0, 1, 2, ... from +0: s = fma(q[d], k[i][d], s)
//     soft cap: s[i] = f32(c * tanh(s[i] / c)) * f32(log2(e)), the first in double, the product in f32; a NaN becomes
//     +infinity, so that y becomes NaN (without a cap no finite score can stand beside a NaN: y is NaN by itself)
//     bias by distance: s[i] = s[i] + f32(b * f32(log2(e))), b that of the distance from the query's own position
//   Positions go in blocks of 64 at 0, 64, 128, ...; only blocks with a visible position are visited. In a block a
//   position that is not visible has s = -infinity, hence p = 0:
//     m' = max(m, all s)  (a NaN score is passed over);  a = exp2_lane(m - m');  p[i] = exp2_lane(s[i] - m')
//     l[j] = fma(l[j], a, (p[j] + p[j + 16]) + (p[j + 32] + p[j + 48]))   j < 16
//     o[d] = o[d] * a; then fma chain over the 64 positions in rising order: o = fma(p[i], v[i][d], o); then o + 0
//   (The last addition turns -0 into +0. With it, and because what the cache holds is finite, a hidden position
//   changes nothing, whether a kernel runs over it or leaves it out.)
//   Chunks of 1024 positions at 0, 1024, ... start afresh with m = -infinity, l = 0, o = 0; those with a visible
//   position are merged in rising order, the first as it is:
//     m' = max(m, m_c);  a = exp2_lane(m - m');  b = exp2_lane(m_c - m')
//     l[j] = fma(l_c[j], b, l[j] * a);  o[d] = fma(o_c[d], b, o[d] * a)
//   y[d] = o[d] / fold(l)        fold: l[j] += l[j + 8], then 4, 2, 1
//
// The weights of a row by themselves (attention_weights), over the visible positions in rising order:
//   m = max(all s)  (a NaN score is passed over);  p[i] = exp2_lane(s[i] - m);  l = sum of p[i] in double
//   w[i] = f32(p[i] / l), the quotient in double
//
// Cached keys and values are widened to f32 (exact). The bits do not depend on which rows share a call.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/cpu/isa.h"

namespace mote {

inline constexpr uint32_t kAttentionBlock = 64, kAttentionChunk = 1024;
inline constexpr uint32_t kAttentionItems = 24;   // query rows (position and head) of one KV head in one call

// What is known about one query row after some chunks: [0] m, [16 .. 31] l, [32 ..] o, padded to 16.
constexpr uint32_t attention_record_floats(uint32_t value_dim) { return 32u + (value_dim + 15) / 16 * 16; }
// A lane's own memory for one call.
constexpr uint64_t attention_scratch_floats(uint32_t key_dim, uint32_t value_dim) {
  const uint64_t values = (uint64_t{value_dim} + 15) / 16 * 16;
  return (key_dim + values) * 16 + kAttentionItems * (uint64_t{key_dim} + 16 + kAttentionBlock) +
         2 * kAttentionItems * uint64_t{attention_record_floats(value_dim)};
}

// One call: rows of one KV head over the chunks [first_chunk, end_chunk).
struct AttentionJob {
  const void* keys;     // of the KV head: [capacity / 16, key_dim, 16]
  const void* values;   // of the KV head: [capacity, value_dim]
  uint32_t key_dim, value_dim;
  uint32_t capacity;                        // positions, a multiple of 64: position p lies in slot p % capacity
  uint32_t window;                          // 0: none
  float scale, softcap;                     // softcap 0: none
  uint32_t first_chunk, end_chunk;          // attend
  uint32_t n_positions;                     // weigh: of a row of weights
  uint32_t items;                           // at most kAttentionItems
  const float* q[kAttentionItems];          // [key_dim] each
  uint32_t position[kAttentionItems];       // the last that it sees
  const float* bias[kAttentionItems];       // of its head, [2 * max_distance + 1]; null: none, for all items
  uint32_t own_position[kAttentionItems];   // with a bias
  uint32_t max_distance;
  float* record[kAttentionItems];   // out; null: y is written instead
  float* y[kAttentionItems];        // out, [value_dim] each; weigh: [n_positions]
  float* scratch;                   // attention_scratch_floats, 64-aligned
};

struct AttentionTable {
  void (*attend_f16)(const AttentionJob&);
  void (*attend_f32)(const AttentionJob&);
  void (*weigh_f16)(const AttentionJob&);
  void (*weigh_f32)(const AttentionJob&);
  // y = what the records of `count` chunks, one after the other, merge to. The first record is overwritten.
  void (*merge)(float* records, uint32_t count, uint32_t value_dim, float* y);
};
struct AttentionVariant {
  IsaBits required;
  const char* name;
  const AttentionTable* table;
};
std::span<const AttentionVariant> attention_variants();   // the scalar one first

}   // namespace mote
