// Weights to int8 per channel, as XNNPACK's qc8w operators take them.
#pragma once
#include <cstdint>
#include <span>

namespace mote {

// Adds up what requantising changes, over the finite rows.
struct QuantizingError {
  double changed = 0, whole = 0;   // sums of squares: of the differences, of the weights
  double relative() const;         // root of the quotient; 0 when all weights are 0
};

// One row of weights (an output channel): code = w / scale, rounded to nearest, ties away from 0; scale = largest /
// 127. Returns the scale. A row whose largest magnitude is below 127 x 2^-126 gets codes 0 and scale 1; one with an
// infinity or a NaN codes 0 and scale NaN, so that its output is NaN.
float quantize_channel(std::span<const float> row, int8_t* codes, QuantizingError* error);

}   // namespace mote
