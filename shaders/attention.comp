#version 450
#extension GL_GOOGLE_include_directive : require
// attention: softmax(softcap(scale q k)) v of one head of one row in a work group.
//
// Positions go in blocks of 64 at 0, 64, 128, ...; with m the largest score so far, a block's weights are
// exp(score - m), and what was summed before is multiplied by exp(old m - m). An invocation makes the score of one
// position of a block and up to four numbers of the output; it adds up a block's weights itself, so that all have the
// same sum. Only positions that the query sees are read.
#include "include/common.glsl"
#include "include/halves.glsl"
#include "include/functions.glsl"

layout(set = 0, binding = 0) readonly buffer Queries { float q[]; };
layout(set = 0, binding = 1) readonly buffer KeyCache { uint key_cache[]; };
layout(set = 0, binding = 2) readonly buffer ValueCache { uint value_cache[]; };
MOTE_VK_BATCH(3)
layout(set = 0, binding = 4) writeonly buffer Output { float y[]; };
layout(push_constant) uniform Push {
  uint n_heads, first_head;   // of the rows; the one of work group x = 0
  uint group;                 // heads that share a KV head
  uint key_dim, value_dim;
  uint capacity;
  uint window;                // 0: none
  float scale, softcap;       // softcap 0: none
  uint row_base;
};

shared float query[MOTE_VK_MOST_HEAD_DIM];   // times the scale, so that fewer products are out of range
shared float scores[MOTE_VK_GROUP];
shared float weights[MOTE_VK_GROUP];

#define MINUS_INFINITY uintBitsToFloat(0xff800000u)

float key_product(uint at, uint words) {
  precise vec2 sum = vec2(0.0);
#ifdef HALVES
  for (uint word = 0u; word < words; ++word) {
    uint pair = key_cache[at + word];
    sum += vec2(query[2u * word], query[2u * word + 1u]) * vec2(half_value(pair & 0xffffu), half_value(pair >> 16));
  }
#else
  for (uint d = 0u; d < key_dim; ++d) sum.x += query[d] * uintBitsToFloat(key_cache[at + d]);
#endif
  return sum.x + sum.y;
}

float value_of(uint at, uint d) {
#ifdef HALVES
  return half_value(value_cache[at + d / 2u] >> (d % 2u * 16u) & 0xffffu);
#else
  return uintBitsToFloat(value_cache[at + d]);
#endif
}

void main() {
  uint lane = gl_LocalInvocationID.x, row = gl_WorkGroupID.y, head = first_head + gl_WorkGroupID.x;
  uint kv_at = gl_WorkGroupID.x / group * capacity;
  uint position = batch_first_position + row_base + row;
  uint begin = window != 0u && position >= window ? position + 1u - window : 0u;
#ifdef HALVES
  uint key_words = (key_dim + 1u) / 2u, value_words = (value_dim + 1u) / 2u;
#else
  uint key_words = key_dim, value_words = value_dim;
#endif
  uint q_at = (row * n_heads + head) * key_dim;
  for (uint i = lane; i < key_words * (key_words == key_dim ? 1u : 2u); i += MOTE_VK_GROUP)
    query[i] = i < key_dim ? q[q_at + i] * scale : 0.0;
  barrier();

  float largest = MINUS_INFINITY;
  precise float total = 0.0;
  precise vec4 out_sums = vec4(0.0);
  for (uint block = begin / MOTE_VK_GROUP; block <= position / MOTE_VK_GROUP; ++block) {
    uint first = block * MOTE_VK_GROUP;
    uint low = max(begin, first) - first, high = min(position - first, MOTE_VK_GROUP - 1u);
    uint base = first % capacity;   // capacity is a multiple of a block
    precise float score = MINUS_INFINITY;
    if (lane >= low && lane <= high) {
      score = key_product((kv_at + base + lane) * key_words, key_words);
      if (softcap != 0.0) score = softcap * tanh_of(score / softcap);
    }
    scores[lane] = score;
    barrier();
    float next = largest;
    for (uint i = low; i <= high; ++i) next = scores[i] > next ? scores[i] : next;   // a NaN is passed over
    weights[lane] = exp_of(score - next);
    barrier();
    precise float shrink = exp_of(largest - next);
    total *= shrink;
    out_sums *= shrink;
    for (uint i = low; i <= high; ++i) {
      float weight = weights[i];
      uint at = (kv_at + base + i) * value_words;
      total += weight;
      if (lane < value_dim) out_sums.x += weight * value_of(at, lane);
      if (lane + 64u < value_dim) out_sums.y += weight * value_of(at, lane + 64u);
      if (lane + 128u < value_dim) out_sums.z += weight * value_of(at, lane + 128u);
      if (lane + 192u < value_dim) out_sums.w += weight * value_of(at, lane + 192u);
    }
    largest = next;
    barrier();
  }
  uint y_at = (row * n_heads + head) * value_dim;
  precise vec4 result = out_sums / total;
  if (lane < value_dim) y[y_at + lane] = result.x;
  if (lane + 64u < value_dim) y[y_at + lane + 64u] = result.y;
  if (lane + 128u < value_dim) y[y_at + lane + 128u] = result.z;
  if (lane + 192u < value_dim) y[y_at + lane + 192u] = result.w;
}
