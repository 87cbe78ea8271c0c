#version 450
#extension GL_GOOGLE_include_directive : require
// Rows between the memory that the host writes or reads and a Value: as many as the run has.
#include "include/common.glsl"

layout(set = 0, binding = 0) readonly buffer From { uint from[]; };
layout(set = 0, binding = 1) writeonly buffer To { uint to[]; };
layout(push_constant) uniform Push { uint columns; };

void main() {
  uint at = gl_WorkGroupID.y * columns + gl_GlobalInvocationID.x;
  if (gl_GlobalInvocationID.x < columns) to[at] = from[at];
}
