// CaseRandom numbers for tests: the same on every machine, the seed is in every message.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

namespace mote::test {

class CaseRandom {
 public:
  explicit CaseRandom(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 1) {}
  uint64_t next() {   // splitmix64
    state_ += 0x9E3779B97F4A7C15U;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(next() % limit); }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }   // [0, 1)
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }
  std::vector<float> normals(size_t count, double scale = 1) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(scale * normal());
    return values;
  }
  std::vector<uint8_t> bytes(size_t count) {
    std::vector<uint8_t> values(count);
    for (uint8_t& value : values) value = static_cast<uint8_t>(next());
    return values;
  }

 private:
  uint64_t state_;
};

}   // namespace mote::test
