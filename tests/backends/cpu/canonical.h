// The canonical order once more, written as plainly as the headers of backends/cpu say it, from the block structs of
// core/format and the libm fma. The kernels must give these bits.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/format/format.h"

namespace mote::test {

struct QuantizedRow {
  std::vector<int> codes;      // [columns]
  std::vector<float> scales;   // [columns / unit]
};
QuantizedRow canonical_quantize(const float* x, uint32_t columns, uint32_t unit);

// `linear` without a bias: weights [rows, columns] in `format`, x [x_rows, columns]; y [x_rows, rows].
std::vector<float> canonical_linear(Format format, const uint8_t* weights, uint32_t rows, const float* x,
                                    uint32_t x_rows, uint32_t columns);

struct AttentionInput {
  uint32_t key_dim, value_dim, window;
  float scale, softcap;
  const float* keys;             // [positions, key_dim], as the cache holds them, widened
  const float* values;           // [positions, value_dim]
  const float* bias = nullptr;   // by distance, [2 * max_distance + 1]
  uint32_t max_distance = 0;
};
// The output row of a query at `position` that sees the positions up to `last`.
std::vector<float> canonical_attention(const AttentionInput& input, const float* q, uint32_t position, uint32_t last);

// The weights of that query by themselves, [positions]; 0 where it sees nothing.
std::vector<float> canonical_weights(const AttentionInput& input, const float* q, uint32_t position, uint32_t last,
                                     uint32_t positions);

float canonical_fold(const float* partial);

// Empty, or a sentence with the first element whose bits differ. All NaN count as one.
std::string compare_floats(const std::vector<float>& expected, const std::vector<float>& found);

}   // namespace mote::test
