#version 450
#extension GL_GOOGLE_include_directive : require
// activate: y = f(x).
#include "include/common.glsl"
#include "include/functions.glsl"

layout(set = 0, binding = 0) readonly buffer Input { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Output { float y[]; };
layout(push_constant) uniform Push {
  uint columns;
  uint function;   // the number in enum class Activation of core/ops/step.h
};

void main() {
  uint at = gl_WorkGroupID.y * columns + gl_GlobalInvocationID.x;
  if (gl_GlobalInvocationID.x < columns) y[at] = activation_of(function, x[at]);
}
