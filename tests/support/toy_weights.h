// Pseudo-random weights in every format, the same on every machine for one seed.
#pragma once
#include <cstdint>
#include <vector>

#include "core/format/format.h"

namespace mote::test {

// splitmix64: small, and the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits();
  uint32_t below(uint32_t end) { return static_cast<uint32_t>(bits() % end); }
  float uniform(float lowest, float highest);   // lowest <= x < highest
  float normal();                               // about: the sum of 12 uniforms

 private:
  uint64_t state_;
};

// `rows` x `columns` weights whose values have about the standard deviation `deviation` and mean 0. Block formats get
// random codes and sub-block scales, so every bit of a block matters; columns is a multiple of the block.
std::vector<uint8_t> random_weights(Format format, uint64_t rows, uint64_t columns, float deviation, Random& random);

// `values` as f32, f16 or bf16 bytes.
std::vector<uint8_t> float_weights(Format format, const std::vector<float>& values);

}   // namespace mote::test
