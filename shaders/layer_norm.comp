#version 450
#extension GL_GOOGLE_include_directive : require
// layer_norm: y = (x - mean) / sqrt(variance + epsilon) * weight + bias. A work group for each row.
#include "include/common.glsl"

layout(set = 0, binding = 0) readonly buffer Input { float x[]; };
layout(set = 0, binding = 1) readonly buffer Weight { float weight[]; };
layout(set = 0, binding = 2) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 3) writeonly buffer Output { float y[]; };
layout(push_constant) uniform Push {
  uint columns;
  float epsilon;
  uint has_bias;
};

#include "include/fold.glsl"

void main() {
  uint at = gl_WorkGroupID.y * columns, lane = gl_LocalInvocationID.x;
  precise float sum = 0.0;
  for (uint i = lane; i < columns; i += MOTE_VK_GROUP) sum += x[at + i];
  precise float mean = fold(sum) / float(columns);
  precise float squares = 0.0;
  for (uint i = lane; i < columns; i += MOTE_VK_GROUP) squares += (x[at + i] - mean) * (x[at + i] - mean);
  precise float root = sqrt(fold(squares) / float(columns) + epsilon);
  for (uint i = lane; i < columns; i += MOTE_VK_GROUP) {
    precise float scaled = (x[at + i] - mean) / root * weight[i];
    if (has_bias != 0u) scaled += bias[i];
    y[at + i] = scaled;
  }
}
