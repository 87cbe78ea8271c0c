// Philox against the vectors that its authors publish with Random123 (kat_vectors), and the uniform numbers.
#include "core/sampler/philox.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <set>

namespace {

using namespace mote;

bool equal(const PhiloxBlock& a, const PhiloxBlock& b) {
  for (int i = 0; i < 4; ++i)
    if (a.word[i] != b.word[i]) return false;
  return true;
}

TEST_CASE("Philox 4x32-10 gives the published vectors", "[sampler][random]") {
  CHECK(equal(philox4x32({{0, 0, 0, 0}}, 0, 0), {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}));
  CHECK(equal(philox4x32({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, 0xffffffff, 0xffffffff),
              {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}));
  CHECK(equal(philox4x32({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0),
              {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}));
}

TEST_CASE("uniform numbers use all 64 bits of seed and position and fill the unit interval", "[sampler][random]") {
  CHECK(philox_uniform(0, 0) == std::ldexp(static_cast<double>(uint64_t{0x6627e8d5e169c58d} >> 11), -53));
  std::set<double> different;
  for (int bit = 0; bit < 64; ++bit) {
    different.insert(philox_uniform(uint64_t{1} << bit, 0));
    different.insert(philox_uniform(0, uint64_t{1} << bit));
  }
  CHECK(different.size() == 128);
  constexpr int kCount = 100000;
  double sum = 0, square = 0;
  bool inside = true;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double u = philox_uniform(12345, i);
    inside = inside && u >= 0 && u < 1;
    sum += u, square += u * u;
  }
  CHECK(inside);
  CHECK(std::fabs(sum / kCount - 1.0 / 2) < 0.005);
  CHECK(std::fabs(square / kCount - 1.0 / 3) < 0.005);
}

}   // namespace
