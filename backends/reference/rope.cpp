// rope_angles and rope.
#include "core/ops/rope_angles.h"

#include <algorithm>

#include "backends/reference/executor.h"

namespace mote {

Status ReferenceExecutor::rope_angles(const Step& step, const Batch& batch) {
  const RopeAnglesAttributes& attributes = step.attributes.rope_angles;
  float* y = values_.data(step.output);
  for (size_t row = 0; row < batch.tokens.size(); ++row)
    rope_angles_row(attributes, batch.first_position + static_cast<uint32_t>(row), y + row * attributes.n_rotated);
  return {};
}

// (a, b) -> (a cos - b sin, a sin + b cos) for the pairs of every head; the dimensions after n_rotated stay.
Status ReferenceExecutor::rope(const Step& step, const Batch& batch) {
  const RopeAttributes& attributes = step.attributes.rope;
  const size_t pairs = attributes.n_rotated / 2;
  const bool neighbours = attributes.pairing == RopePairing::neighbours;
  const float* all_x = values_.data(step.inputs[0]);
  const float* all_angles = values_.data(step.inputs[1]);
  float* all_y = values_.data(step.output);
  if (all_y != all_x) std::copy_n(all_x, elements_of(step.output, batch), all_y);
  for (size_t row = 0; row < rows_of(step.output, batch); ++row) {
    const float* angles = all_angles + row * attributes.n_rotated;   // cos and sin in turn
    for (size_t head = 0; head < attributes.n_heads; ++head) {
      float* y = all_y + (row * attributes.n_heads + head) * attributes.head_dim;
      for (size_t i = 0; i < pairs; ++i) {
        float& first = neighbours ? y[2 * i] : y[i];
        float& second = neighbours ? y[2 * i + 1] : y[i + pairs];
        const double a = first, b = second, cosine = angles[2 * i], sine = angles[2 * i + 1];
        first = static_cast<float>(a * cosine - b * sine);
        second = static_cast<float>(a * sine + b * cosine);
      }
    }
  }
  return {};
}

}   // namespace mote
