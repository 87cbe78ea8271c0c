#version 450
#extension GL_GOOGLE_include_directive : require
// gate: y = f(g) * u.
#include "include/common.glsl"
#include "include/functions.glsl"

layout(set = 0, binding = 0) readonly buffer Gate { float g[]; };
layout(set = 0, binding = 1) readonly buffer Up { float u[]; };
layout(set = 0, binding = 2) writeonly buffer Output { float y[]; };
layout(push_constant) uniform Push {
  uint columns;
  uint function;   // the number in enum class Activation of core/ops/step.h
};

void main() {
  uint at = gl_WorkGroupID.y * columns + gl_GlobalInvocationID.x;
  if (gl_GlobalInvocationID.x >= columns) return;
  precise float product = activation_of(function, g[at]) * u[at];
  y[at] = product;
}
