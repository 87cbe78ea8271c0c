#version 450
#extension GL_GOOGLE_include_directive : require
// position_embed: y[row] = x[row] + the row of the matrix at the row's position. Windows as in embed.comp.
#include "include/common.glsl"

layout(set = 0, binding = 0) readonly buffer Weights { uint matrix[]; };
layout(set = 0, binding = 1) readonly buffer Input { float x[]; };
layout(set = 0, binding = 2) writeonly buffer Output { float y[]; };
MOTE_VK_BATCH(3)
layout(push_constant) uniform Push {
  uint columns, row_words, first, count;
  uint row_base;
};

#include "include/matrix.glsl"

void main() {
  uint row = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  uint from = batch_first_position + row_base + row - first;
  if (column < columns && from < count) {
    precise float sum = x[row * columns + column] + matrix_value(from * row_words, columns, column);
    y[row * columns + column] = sum;
  }
}
