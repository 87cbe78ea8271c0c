#version 450
#extension GL_GOOGLE_include_directive : require
// add: y = a + b.
#include "include/common.glsl"

layout(set = 0, binding = 0) readonly buffer First { float a[]; };
layout(set = 0, binding = 1) readonly buffer Second { float b[]; };
layout(set = 0, binding = 2) writeonly buffer Output { float y[]; };
layout(push_constant) uniform Push { uint columns; };

void main() {
  uint at = gl_WorkGroupID.y * columns + gl_GlobalInvocationID.x;
  if (gl_GlobalInvocationID.x < columns) y[at] = a[at] + b[at];
}
