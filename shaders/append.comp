#version 450
#extension GL_GOOGLE_include_directive : require
// append: the keys and values of a batch enter the cache at their positions, brought into the range of its type; a
// NaN becomes 0 and is noted for its row. A work group for each row. The buffers hold some of the KV heads.
#include "include/common.glsl"
#include "include/halves.glsl"

layout(set = 0, binding = 0) readonly buffer Keys { float keys[]; };
layout(set = 0, binding = 1) readonly buffer Values { float values[]; };
layout(set = 0, binding = 2) writeonly buffer KeyCache { uint key_cache[]; };       // [heads, capacity, key words]
layout(set = 0, binding = 3) writeonly buffer ValueCache { uint value_cache[]; };   // [heads, capacity, value words]
layout(set = 0, binding = 4) writeonly buffer HasNan { uint has_nan[]; };           // [rows]: 1 or 0
MOTE_VK_BATCH(5)
layout(push_constant) uniform Push {
  uint n_kv_heads, first_head, heads;   // of the rows; those that the caches hold
  uint key_dim, value_dim;
  uint capacity;   // position p lies in slot p % capacity
  uint row_base;
};

shared uint nan_found;

// What the cache keeps of a number, as a word's part.
uint kept(float x) {
  if (is_nan(x)) return 0u;
#ifdef HALVES
  uint bits = half_bits(x);
  return (bits & 0x7fffu) >= 0x7c00u ? (bits & 0x8000u) | 0x7bffu : bits;
#else
  uint bits = floatBitsToUint(x);
  return (bits & 0x7fffffffu) == 0x7f800000u ? bits - 1u : bits;
#endif
}

#ifdef HALVES
#define PER_WORD 2u
#else
#define PER_WORD 1u
#endif

// WRITE(from, to): the heads of one row of `from` into their places of `to`.
#define WRITE(from, to, dim)                                                                    \
  for (uint i = gl_LocalInvocationID.x, words = (dim + PER_WORD - 1u) / PER_WORD; i < heads * words; \
       i += MOTE_VK_GROUP) {                                                                    \
    uint head = i / words, word = i % words;                                                    \
    uint at = (row * n_kv_heads + first_head + head) * dim + word * PER_WORD;                   \
    float number = from[at];                                                                    \
    uint bits = kept(number);                                                                   \
    found = found || is_nan(number);                                                            \
    if (PER_WORD == 2u && word * 2u + 1u < dim) {                                               \
      number = from[at + 1u];                                                                   \
      bits |= kept(number) << 16;                                                               \
      found = found || is_nan(number);                                                          \
    }                                                                                           \
    to[(head * capacity + slot) * words + word] = bits;                                         \
  }

void main() {
  uint row = gl_WorkGroupID.y, slot = (batch_first_position + row_base + row) % capacity;
  if (gl_LocalInvocationID.x == 0u) nan_found = 0u;
  barrier();
  bool found = false;
  WRITE(keys, key_cache, key_dim)
  WRITE(values, value_cache, value_dim)
  if (found) atomicOr(nan_found, 1u);
  barrier();
  if (gl_LocalInvocationID.x == 0u) has_nan[row_base + row] = nan_found;
}
