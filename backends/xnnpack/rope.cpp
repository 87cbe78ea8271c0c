// rope, on XNNPACK's operator of that name. It turns whole heads and pairs dimension i with i + n / 2, with the cosines
// of a row before its sines. Other heads and pairings go through a copy in that order.
#include <cstring>

#include "backends/xnnpack/executor.h"

namespace mote {
namespace {

// Angles (cos, sin, cos, sin, ...) of each row as the operator wants them.
void part_angles(const float* angles, size_t rows, size_t n_rotated, float* to) {
  const size_t half = n_rotated / 2;
  for (size_t row = 0; row < rows; ++row, angles += n_rotated, to += n_rotated) {
    for (size_t i = 0; i < half; ++i) {
      to[i] = angles[2 * i];
      to[half + i] = angles[2 * i + 1];
    }
  }
}

// Where dimension i of the operator's order lies in the head.
size_t place_of(const RopeAttributes& attributes, size_t i) {
  const size_t half = attributes.n_rotated / 2;
  if (attributes.pairing == RopePairing::halves) return i;
  return i < half ? 2 * i : 2 * (i - half) + 1;
}

Status turn(const StepContext& context, size_t rows, const float* from, float* to) {
  const RopeAttributes& attributes = context.step().attributes.rope;
  const xnn_operator_t op = context.session.shared.rope;
  const size_t heads = attributes.n_heads, n_rotated = attributes.n_rotated;
  MOTE_RETURN_IF_XNN_FAILS(xnn_reshape_rope_nthc_f32, op, 1, rows, heads, n_rotated, context.pool());
  MOTE_RETURN_IF_XNN_FAILS(xnn_setup_rope_nthc_f32, op, from, context.session.scratch.angles.data(), to);
  MOTE_RETURN_IF_XNN_FAILS(xnn_run_operator, op, context.pool());
  return {};
}

}   // namespace

Status xnn_run_rope(const StepContext& context) {
  const RopeAttributes& attributes = context.step().attributes.rope;
  const size_t rows = context.rows(context.step().output), n_rotated = attributes.n_rotated;
  const size_t heads = rows * attributes.n_heads, head_dim = attributes.head_dim;
  const float* x = context.input(0);
  float* y = context.output();
  if (n_rotated == 0) {
    if (x != y) std::memcpy(y, x, context.elements() * sizeof(float));
    return {};
  }
  part_angles(context.input(1), rows, n_rotated, context.session.scratch.angles.data());
  if (attributes.pairing == RopePairing::halves && n_rotated == head_dim) return turn(context, rows, x, y);

  float* turned = context.session.scratch.rows.data();
  for (size_t head = 0; head < heads; ++head)
    for (size_t i = 0; i < n_rotated; ++i) turned[head * n_rotated + i] = x[head * head_dim + place_of(attributes, i)];
  MOTE_RETURN_IF_ERROR(turn(context, rows, turned, turned));
  for (size_t head = 0; head < heads; ++head) {
    for (size_t i = 0; i < n_rotated; ++i) y[head * head_dim + place_of(attributes, i)] = turned[head * n_rotated + i];
    for (size_t i = n_rotated; i < head_dim && x != y; ++i) y[head * head_dim + i] = x[head * head_dim + i];
  }
  return {};
}

}   // namespace mote
