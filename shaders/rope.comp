#version 450
#extension GL_GOOGLE_include_directive : require
// rope: turns pairs (a, b) of a head's first n_rotated dimensions: (a cos - b sin, a sin + b cos).
#include "include/common.glsl"

layout(set = 0, binding = 0) readonly buffer Input { float x[]; };
layout(set = 0, binding = 1) readonly buffer Angles { float angles[]; };   // cos and sin in turn
layout(set = 0, binding = 2) writeonly buffer Output { float y[]; };
layout(push_constant) uniform Push {
  uint columns, head_dim, n_rotated;
  uint by_halves;   // 1: pairs (i, i + n_rotated / 2), 0: (2 i, 2 i + 1)
};

void main() {
  uint row = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (column >= columns) return;
  uint at = row * columns + column, dimension = column % head_dim, pairs = n_rotated / 2u;
  precise float turned = x[at];
  if (dimension < n_rotated) {
    uint pair = by_halves != 0u ? dimension % pairs : dimension / 2u;
    bool is_first = by_halves != 0u ? dimension < pairs : dimension % 2u == 0u;
    uint distance = by_halves != 0u ? pairs : 1u;
    precise float cosine = angles[row * n_rotated + 2u * pair], sine = angles[row * n_rotated + 2u * pair + 1u];
    if (is_first)
      turned = x[at] * cosine - x[at + distance] * sine;
    else
      turned = x[at - distance] * sine + x[at] * cosine;
  }
  y[at] = turned;
}
