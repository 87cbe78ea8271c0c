// The angles of rotary position embedding, for every backend the same.
#pragma once
#include <cstdint>

#include "core/ops/step.h"

namespace mote {

// row[n_rotated] = cos and sin of position * frequency[i], times magnitude: formed in double from the integer
// position, rounded to f32 once.
void rope_angles_row(const RopeAnglesAttributes& attributes, uint32_t position, float* row);

}   // namespace mote
