#version 450
#extension GL_GOOGLE_include_directive : require
// take_rows: y[i] = the row of x whose output is the i-th that is wanted.
#include "include/common.glsl"

layout(set = 0, binding = 0) readonly buffer Input { uint x[]; };
layout(set = 0, binding = 1) readonly buffer OutputRows { uint output_rows[]; };
layout(set = 0, binding = 2) writeonly buffer Output { uint y[]; };
layout(push_constant) uniform Push {
  uint columns;
  uint row_base;   // the first row that `y` holds
};

void main() {
  uint row = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (column < columns) y[row * columns + column] = x[output_rows[row_base + row] * columns + column];
}
