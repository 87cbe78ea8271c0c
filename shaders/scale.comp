#version 450
#extension GL_GOOGLE_include_directive : require
// scale: y = factor * x.
#include "include/common.glsl"

layout(set = 0, binding = 0) readonly buffer Input { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Output { float y[]; };
layout(push_constant) uniform Push {
  uint columns;
  float factor;
};

void main() {
  uint at = gl_WorkGroupID.y * columns + gl_GlobalInvocationID.x;
  if (gl_GlobalInvocationID.x < columns) y[at] = factor * x[at];
}
