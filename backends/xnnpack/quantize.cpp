#include "backends/xnnpack/quantize.h"

#include <cstring>
#include <limits>

#include "core/base/math_lanes.h"

namespace mote {

double QuantizingError::relative() const { return whole > 0 ? sqrt_f64(changed / whole) : 0; }

float quantize_channel(std::span<const float> row, int8_t* codes, QuantizingError* error) {
  float largest = 0;
  bool finite = true;
  for (const float weight : row) {
    const float size = weight < 0 ? -weight : weight;
    if (!(size <= std::numeric_limits<float>::max())) finite = false;
    if (size > largest) largest = size;
  }
  if (!finite) {
    std::memset(codes, 0, row.size());
    return std::numeric_limits<float>::quiet_NaN();
  }
  double changed = 0, whole = 0;
  float scale = 1;
  if (largest < 127 * std::numeric_limits<float>::min()) {
    std::memset(codes, 0, row.size());
    for (const float weight : row) whole += double{weight} * weight;
    changed = whole;
  } else {
    scale = largest / 127;
    const float inverse = 127 / largest;
    for (size_t i = 0; i < row.size(); ++i) {
      const float exact = row[i] * inverse;   // at most 127 and a rounding
      codes[i] = static_cast<int8_t>(exact + (exact < 0 ? -0.5f : 0.5f));
      const double difference = double{row[i]} - double{scale} * codes[i];
      changed += difference * difference;
      whole += double{row[i]} * row[i];
    }
  }
  error->changed += changed;
  error->whole += whole;
  return scale;
}

}   // namespace mote
