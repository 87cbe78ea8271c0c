#version 450
#extension GL_GOOGLE_include_directive : require
// embed: y[row] = the row of the matrix that the row's token names. The buffer is a window of the matrix; whose row
// lies in another window is left to that window's dispatch.
#include "include/common.glsl"

layout(set = 0, binding = 0) readonly buffer Weights { uint matrix[]; };
layout(set = 0, binding = 1) readonly buffer Tokens { uint tokens[]; };
layout(set = 0, binding = 2) writeonly buffer Output { float y[]; };
layout(push_constant) uniform Push {
  uint columns, row_words, first, count;   // first, count: rows of the window
  uint row_base;                           // the first row that `y` holds
};

#include "include/matrix.glsl"

void main() {
  uint row = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  uint from = tokens[row_base + row] - first;   // far beyond `count` when it lies before the window
  if (column < columns && from < count)
    y[row * columns + column] = matrix_value(from * row_words, columns, column);
}
