#version 450
#extension GL_GOOGLE_include_directive : require
// linear: y = x matrix^T + bias. An invocation makes one column of ROWS rows of y.
//
// The order of a sum depends on nothing but the row: four partial sums by k mod 4 (f32, f16), or four inside each block
// of 32 whose sum is multiplied by the block's scale and added in the order of the blocks. `precise`, so that one row
// at a time and many give the same bits.
#include "include/common.glsl"

layout(set = 0, binding = 0) readonly buffer Weights { uint matrix[]; };
layout(set = 0, binding = 1) readonly buffer Input { float x[]; };
layout(set = 0, binding = 2) readonly buffer Bias { float bias[]; };
MOTE_VK_BATCH(3)
layout(set = 0, binding = 4) writeonly buffer Output { float y[]; };
layout(push_constant) uniform Push {
  uint columns, row_words;     // of the matrix
  uint first, count;           // rows of the window: columns of y
  uint y_columns;
  uint by_outputs, has_bias;   // 1 or 0
  uint row_base, chunk_rows;   // the rows that x and y hold
};

#include "include/matrix.glsl"

#define EACH_ROW for (uint r = 0u; r < ROWS; ++r)

vec4 x_values(uint at) { return vec4(x[at], x[at + 1u], x[at + 2u], x[at + 3u]); }

void main() {
  uint column = gl_GlobalInvocationID.x, first_row = gl_WorkGroupID.y * ROWS;
  uint rows = min((by_outputs != 0u ? batch_outputs : batch_rows) - row_base, chunk_rows);
  precise vec4 sums[ROWS];   // not global: glslang 12 loses those that are precise
  uint x_at[ROWS];
  EACH_ROW {
    sums[r] = vec4(0.0);
    x_at[r] = min(first_row + r, rows - 1u) * columns;   // beyond the last: that one again, written by nobody
  }
  // Invocations beyond the last column take that one: all go the same way through the loops.
  uint at = min(column, count - 1u) * row_words;
#if FORMAT == MOTE_VK_F32 || FORMAT == MOTE_VK_F16
  uint k = 0u;
  for (; k + 4u <= columns; k += 4u) {
#if FORMAT == MOTE_VK_F32
    uint w_at = at + k;
    vec4 w = uintBitsToFloat(uvec4(matrix[w_at], matrix[w_at + 1u], matrix[w_at + 2u], matrix[w_at + 3u]));
#else
    uint low = matrix[at + k / 2u], high = matrix[at + k / 2u + 1u];
    vec4 w = vec4(half_value(low & 0xffffu), half_value(low >> 16), half_value(high & 0xffffu), half_value(high >> 16));
#endif
    EACH_ROW sums[r] += w * x_values(x_at[r] + k);
  }
  for (; k < columns; ++k) {
    float w = matrix_value(at, columns, k);
    EACH_ROW sums[r].x += w * x[x_at[r] + k];
  }
#else
  const uint kWords = FORMAT == MOTE_VK_Q8_0 ? 8u : 4u;   // of codes in a block
  uint blocks = columns / 32u;
  for (uint block = 0u; block < blocks; ++block) {
    precise vec4 parts[ROWS];
    EACH_ROW parts[r] = vec4(0.0);
    for (uint j = 0u; j < kWords; ++j) {
      uint k = block * 32u + j * 4u;
#if FORMAT == MOTE_VK_Q8_0
      int word = int(matrix[at + block * kWords + j]);
      vec4 w = vec4(bitfieldExtract(word, 0, 8), bitfieldExtract(word, 8, 8), bitfieldExtract(word, 16, 8), word >> 24);
      EACH_ROW parts[r] += w * x_values(x_at[r] + k);
#else
      uint word = matrix[at + block * kWords + j];
      vec4 low = vec4(ivec4(word & 15u, word >> 8 & 15u, word >> 16 & 15u, word >> 24 & 15u) - 8);
      vec4 high = vec4(ivec4(word >> 4 & 15u, word >> 12 & 15u, word >> 20 & 15u, word >> 28) - 8);
      EACH_ROW {
        parts[r] += low * x_values(x_at[r] + k);
        parts[r] += high * x_values(x_at[r] + k + 16u);
      }
#endif
    }
    float scale = block_scale(at, blocks * kWords, block);
    EACH_ROW sums[r].x += scale * ((parts[r].x + parts[r].y) + (parts[r].z + parts[r].w));
  }
#endif
  if (column >= count) return;
  precise float added = has_bias != 0u ? bias[first + column] : 0.0;
  EACH_ROW {
    precise float sum = (sums[r].x + sums[r].y) + (sums[r].z + sums[r].w);
    if (has_bias != 0u) sum += added;
    if (first_row + r < rows) y[(first_row + r) * y_columns + first + column] = sum;
  }
}
