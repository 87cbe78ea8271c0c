// Cosines and sines of positions, for every backend the same: formed in double from the integer position, rounded to
// f32 once.
#pragma once
#include <cstdint>

#include "core/ops/step.h"

namespace mote {

// row[n_rotated] = cos and sin of position * frequency[i], times magnitude.
void rope_angles_row(const RopeAnglesAttributes& attributes, uint32_t position, float* row);

// row[columns] = sin and cos of position * frequency[i], as position_embed adds them; columns even.
void sinusoids_row(const PositionEmbedAttributes& attributes, uint32_t position, uint32_t columns, float* row);

}   // namespace mote
