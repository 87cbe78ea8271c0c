#version 450
#extension GL_GOOGLE_include_directive : require
// rms_norm: y = x / sqrt(mean(x^2) + epsilon) * weight. A work group for each
// group of as many values as there are weights.
#include "include/common.glsl"

layout(set = 0, binding = 0) readonly buffer Input { float x[]; };
layout(set = 0, binding = 1) readonly buffer Weight { float weight[]; };
layout(set = 0, binding = 2) writeonly buffer Output { float y[]; };
layout(push_constant) uniform Push {
  uint columns;
  float epsilon;
};

#include "include/fold.glsl"

void main() {
  uint at = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * columns, lane = gl_LocalInvocationID.x;
  precise float sum = 0.0;
  for (uint i = lane; i < columns; i += MOTE_VK_GROUP) sum += x[at + i] * x[at + i];
  precise float root = sqrt(fold(sum) / float(columns) + epsilon);
  for (uint i = lane; i < columns; i += MOTE_VK_GROUP) {
    precise float scaled = x[at + i] / root * weight[i];
    y[at + i] = scaled;
  }
}
