#include "core/ops/rope_angles.h"

#include "core/base/math.h"

namespace mote {

void rope_angles_row(const RopeAnglesAttributes& attributes, uint32_t position, float* row) {
  for (uint32_t i = 0; i < attributes.n_rotated / 2; ++i) {
    const double angle = static_cast<double>(position) * attributes.frequency[i];
    const SinCos turned = sin_cos_f64(angle);
    row[2 * i] = static_cast<float>(attributes.magnitude * turned.cosine);
    row[2 * i + 1] = static_cast<float>(attributes.magnitude * turned.sine);
  }
}

void sinusoids_row(const PositionEmbedAttributes& attributes, uint32_t position, uint32_t columns, float* row) {
  for (uint32_t i = 0; i < columns / 2; ++i) {
    const SinCos turned = sin_cos_f64(static_cast<double>(position) * attributes.frequency[i]);
    row[2 * i] = static_cast<float>(turned.sine);
    row[2 * i + 1] = static_cast<float>(turned.cosine);
  }
}

}   // namespace mote
